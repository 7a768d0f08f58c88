// Package kernel holds the inner loops of the filters: byte and bit shuffles,
// their reverses, and checksums. Every kernel has a portable form; where the
// processor has more, an assembly form that gives the same bytes is chosen
// when the program runs. The build tag purego leaves the assembly out.
//
// Kernels check nothing but what keeps them inside their slices; the packages
// of filters above check everything else.
package kernel
