package dataset

import (
	"syscall"
	"unsafe"
)

// hugeMin is the minimum size in bytes of memory for which huge pages are requested.
const hugeMin = 4 << 20

// hugePage is the size of a huge page on common systems.
const hugePage = 2 << 20

// madvHugepage is MADV_HUGEPAGE, which the syscall package does not define.
const madvHugepage = 14

// preferHugePages advises the system to back b with huge pages, where b has not been
// accessed before. With pages of 4 KiB, the first access to the memory takes longer than
// decoding with many codecs. The advice has no effect on the content, and errors are
// ignored.
func preferHugePages(b []byte) {
	if len(b) < hugeMin {
		return
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	skip := (hugePage - start%hugePage) % hugePage
	n := (uintptr(len(b)) - skip) / hugePage * hugePage
	_ = syscall.Madvise(b[skip:skip+n], madvHugepage)
}
