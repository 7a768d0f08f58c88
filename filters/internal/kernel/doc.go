// Package kernel holds the inner loops of the filters: byte and bit shuffles, their
// reverses, and checksums. Every kernel has a portable form. Some also have an assembly
// form with the same results, which is selected at run time if the processor supports it.
// The build tag purego excludes the assembly.
//
// Kernels check only that they stay inside their slices. The calling filters check
// everything else.
package kernel
