// Package killpoint ends programs at a chosen point of their work. It runs a program,
// counts the system calls by which the program and its descendants change files, and
// sends a signal just before the call with a given number.
//
// A kill at a random time depends on the speed of the machine; a kill at call 17 tests
// the same step every time.
//
//	func TestMain(m *testing.M) { killpoint.Main(); os.Exit(m.Run()) }
//	...
//	out, err := killpoint.Run(exec.Command("nczctl", "copy", "a.zarr", "b.zarr"), killpoint.Plan{At: 17})
//
// Calls that do not change files are not counted: writes to sockets, pipes, devices and
// memory files, and opening without O_CREAT and O_TRUNC. The order of calls from
// several threads may differ between runs, but their number hardly varies.
//
// Only tests use this package. It requires Linux on amd64 or arm64, and permission to
// trace (root, or a kernel that lets a process trace its children).
package killpoint
