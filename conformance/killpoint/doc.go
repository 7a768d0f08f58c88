// Package killpoint ends programs at a chosen point of their work: it runs a
// program, counts the system calls by which it and its descendants change
// files, and sends a signal in front of the call with a given number.
//
// A kill at a random time tests whatever the machine happens to be doing; a
// kill at call 17 tests the same step every time, however slow the machine is.
//
//	func TestMain(m *testing.M) { killpoint.Main(); os.Exit(m.Run()) }
//	...
//	out, err := killpoint.Run(exec.Command("nczctl", "copy", "a.zarr", "b.zarr"), killpoint.Plan{At: 17})
//
// Calls that change no file are not counted: writes to sockets, pipes, devices
// and memory files, and opening without O_CREAT and O_TRUNC. The order of calls
// made by several threads may differ between runs; the number of points hardly
// does.
//
// Only tests use this package. It needs Linux on amd64 or arm64, and permission
// to trace (root, or a kernel that lets a process trace its children).
package killpoint
