//go:build !linux

package main

import "time"

// cpuTime returns 0: the processor time is not available on this system.
func cpuTime([]int) time.Duration { return 0 }
