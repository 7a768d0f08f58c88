package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime gives the processor time of this process and of those that run with
// the given numbers.
func cpuTime(pids []int) time.Duration {
	var sum time.Duration
	for _, pid := range append(pids, os.Getpid()) {
		var ts unix.Timespec
		clock := int32(^pid<<3) | 2 // the kernel's name for the clock of a process
		if err := unix.ClockGettime(clock, &ts); err == nil {
			sum += time.Duration(ts.Nano())
		}
	}
	return sum
}
