package driver

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// minRate is the minimum useful transfer rate, in bytes per second.
const minRate = 32 << 10

// maxSeconds is the maximum result of TransferTime in seconds. It is small enough that
// callers can add results without overflow.
const maxSeconds = 1 << 32

// TransferTime returns the time allowed for the transfer of n bytes to or from a store,
// in addition to the time for a call without content. It is for callers that cannot
// observe the progress of a transfer. A driver must close a stalled connection much
// earlier.
func TransferTime(n int64) time.Duration {
	return min(time.Duration(max(n, 0)/minRate), maxSeconds) * time.Second
}

// Size is a number of bytes in a driver's options (type "size"). In JSON it is a number,
// or a string such as "64MiB" or "5 GB". It is never negative.
type Size int64

// UnmarshalJSON implements json.Unmarshaler.
func (s *Size) UnmarshalJSON(b []byte) error {
	var n int64
	if json.Unmarshal(b, &n) == nil {
		if n < 0 {
			return fmt.Errorf("negative size %d", n)
		}
		*s = Size(n)
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("%s is not a size in bytes", b)
	}
	digits := strings.TrimRight(text, "KMGTiB ")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := sizeUnit(strings.TrimSpace(text[len(digits):]))
	if err != nil || !ok || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size in bytes", text)
	}
	*s = Size(n * unit)
	return nil
}

func sizeUnit(name string) (int64, bool) {
	unit, base := int64(1), int64(1000)
	if strings.HasSuffix(name, "iB") {
		base = 1024
	}
	switch name {
	case "", "B":
		return 1, true
	case "TB", "TiB":
		unit *= base
		fallthrough
	case "GB", "GiB":
		unit *= base
		fallthrough
	case "MB", "MiB":
		unit *= base
		fallthrough
	case "KB", "KiB":
		return unit * base, true
	}
	return 0, false
}
