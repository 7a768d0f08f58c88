//go:build !amd64 || purego

package kernel

// Without assembly the portable kernels process all elements.

func shuffleAsm(_, _ []byte, _, _ int) int    { return 0 }
func unshuffleAsm(_, _ []byte, _, _ int) int  { return 0 }
func bitsAsm(_ []byte) int                    { return 0 }
func adlerAsm(_ []byte) (uint32, uint32, int) { return 0, 0, 0 }
