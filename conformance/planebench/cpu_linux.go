package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time of this process and of the processes with the
// given ids.
func cpuTime(pids []int) time.Duration {
	var sum time.Duration
	for _, pid := range append(pids, os.Getpid()) {
		var ts unix.Timespec
		clock := int32(^pid<<3) | 2 // the kernel's id of the CPU clock of a process
		if err := unix.ClockGettime(clock, &ts); err == nil {
			sum += time.Duration(ts.Nano())
		}
	}
	return sum
}
