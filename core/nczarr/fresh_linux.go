package nczarr

import (
	"syscall"
	"unsafe"
)

// hugeMin is the size from which memory is asked for in huge pages.
const hugeMin = 4 << 20

// hugePage is the size of a huge page on the systems that have one size.
const hugePage = 2 << 20

// madvHugepage is MADV_HUGEPAGE, which the syscall package lacks.
const madvHugepage = 14

// preferHugePages asks the system to back fresh memory with huge pages: the
// first touch of 4 KiB pages costs more than decoding many codecs does. It is
// advice: whether it was taken does not matter.
func preferHugePages(b []byte) {
	if len(b) < hugeMin {
		return
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	skip := (hugePage - start%hugePage) % hugePage
	n := (uintptr(len(b)) - skip) / hugePage * hugePage
	_ = syscall.Madvise(b[skip:skip+n], madvHugepage)
}
