// Package sandbox restricts the running process to what a plugin was granted. Landlock
// restricts files and ports, a seccomp filter restricts system calls, and resource
// limits restrict memory, files and descriptors. The process cannot gain privileges and
// loses the capabilities that its grants do not require. [Support.Missing] lists
// everything that this kernel cannot enforce.
//
// core/plugin/host creates the [Policy], and core/plugin calls [Apply] in each process
// that the host starts. The package uses go-landlock.
//
// Source: landlock(7), seccomp(2), Documentation/userspace-api/landlock.rst.
package sandbox
