package dtype

// Slice returns s[i:j]. s must be a slice of a type that [MakeSlice] returns. The result
// has the same type and shares memory with s. Slice panics if i or j is out of range or
// if s has another type.
func Slice(s any, i, j int) any {
	switch s := s.(type) {
	case []int8:
		return s[i:j]
	case []uint8:
		return s[i:j]
	case []int16:
		return s[i:j]
	case []uint16:
		return s[i:j]
	case []int32:
		return s[i:j]
	case []uint32:
		return s[i:j]
	case []int64:
		return s[i:j]
	case []uint64:
		return s[i:j]
	case []float32:
		return s[i:j]
	case []float64:
		return s[i:j]
	case []string:
		return s[i:j]
	}
	panic("dtype: not a slice of a netCDF type")
}
