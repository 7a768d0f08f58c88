package dtype

import "encoding/binary"

func nativeOrder() Order {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return Little
	}
	return Big
}
