package sandbox

import "golang.org/x/sys/unix"

const (
	arch        = unix.AUDIT_ARCH_AARCH64
	lastNumber  = unix.SYS_RSEQ_SLICE_YIELD
	legacyOpen  = 0
	legacyCreat = 0 // this architecture has only openat
)

// legacy is empty, because this architecture never had the legacy calls.
var legacy [0]uint32

// legacyNeeded is empty, because this architecture never had the legacy calls.
var legacyNeeded [0]uint32
