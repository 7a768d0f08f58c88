// Package sandbox restricts the running process to what a plugin was granted:
// files and ports through Landlock, system calls through a seccomp filter,
// memory, files and descriptors through limits, no new privileges and no
// capabilities. What cannot be restricted on this kernel is named by
// [Support.Missing], never passed over in silence.
//
// core/plugin calls [Apply] in a process that core/plugin/host started for
// this; host makes the [Policy]. Below it are go-landlock and the kernel.
//
// Source: landlock(7), seccomp(2), Documentation/userspace-api/landlock.rst.
package sandbox
