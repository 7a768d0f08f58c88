package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// setter stores the decoded value v of a key in c. Relative paths are relative to
// dir, the directory of the file; an empty dir leaves them unchanged.
type setter func(c *Config, v any, dir string) error

// wrongType returns an error with the expected type and the type of v. It does not
// show the value.
func wrongType(want string, v any) error {
	names := map[string]string{
		"string": "a string", "int64": "an integer", "float64": "a float", "bool": "a boolean",
		"time.Time": "a date or time", "map[string]interface {}": "a table",
	}
	got := names[fmt.Sprintf("%T", v)]
	if got == "" {
		got = "an array"
	}
	return fmt.Errorf("expected %s, found %s", want, got)
}

func boolean(at func(*Config) *bool) setter {
	return func(c *Config, v any, _ string) error {
		b, ok := v.(bool)
		if !ok {
			return wrongType("true or false", v)
		}
		*at(c) = b
		return nil
	}
}

func integer[T int | int64](at func(*Config) *T, lowest, highest T) setter {
	return func(c *Config, v any, _ string) error {
		n, ok := v.(int64)
		if !ok {
			return wrongType("an integer", v)
		}
		if n < int64(lowest) || n > int64(highest) {
			return fmt.Errorf("%d is not between %d and %d", n, lowest, highest)
		}
		*at(c) = T(n)
		return nil
	}
}

func choice[T ~string](at func(*Config) *T, allowed ...T) setter {
	var names []string
	for _, a := range allowed {
		names = append(names, string(a))
	}
	return func(c *Config, v any, _ string) error {
		s, ok := v.(string)
		if !ok {
			return wrongType("a string", v)
		}
		if !slices.Contains(names, s) {
			return fmt.Errorf("%q is not one of %s%s", s, strings.Join(names, ", "), ncerr.DidYouMean(s, names))
		}
		*at(c) = T(s)
		return nil
	}
}

func duration(at func(*Config) *time.Duration, lowest time.Duration) setter {
	return func(c *Config, v any, _ string) error {
		s, ok := v.(string)
		if !ok {
			return wrongType(`a duration such as "10s"`, v)
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf(`%q is not a duration such as "10s" or "1m30s"`, s)
		}
		if d < lowest {
			return fmt.Errorf("%s is less than the minimum of %s", d, lowest)
		}
		*at(c) = d
		return nil
	}
}

func size(at func(*Config) *Size) setter {
	return func(c *Config, v any, _ string) error {
		n, ok := v.(int64)
		s, isText := v.(string)
		switch {
		case isText:
			parsed, err := ParseSize(s)
			if err != nil {
				return err
			}
			n = int64(parsed)
		case !ok:
			return wrongType(`a size such as "256MiB"`, v)
		}
		if n <= 0 {
			return errors.New("a size must be positive")
		}
		*at(c) = Size(n)
		return nil
	}
}

// sizeOrZero is like size but accepts 0.
func sizeOrZero(at func(*Config) *Size) setter {
	return func(c *Config, v any, dir string) error {
		s, _ := v.(string)
		if n, err := ParseSize(s); v == int64(0) || err == nil && n == 0 {
			*at(c) = 0
			return nil
		}
		return size(at)(c, v, dir)
	}
}

func path(at func(*Config) *string) setter {
	return func(c *Config, v any, dir string) error {
		s, ok := v.(string)
		if !ok {
			return wrongType("a path", v)
		}
		p, err := resolve(s, dir)
		if err != nil {
			return err
		}
		*at(c) = p
		return nil
	}
}

func paths(at func(*Config) *[]string) setter {
	return func(c *Config, v any, dir string) error {
		list, ok := v.([]any)
		if !ok {
			return wrongType("an array of paths", v)
		}
		out := make([]string, 0, len(list))
		for _, item := range list {
			s, ok := item.(string)
			if !ok {
				return wrongType("an array of paths", item)
			}
			if s == "" {
				return errors.New("the path is empty")
			}
			p, err := resolve(s, dir)
			if err != nil {
				return err
			}
			out = append(out, p)
		}
		*at(c) = out
		return nil
	}
}

// resolve returns p joined to dir. It returns an absolute or empty p unchanged.
func resolve(p, dir string) (string, error) {
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		return "", errors.New(`"~" is not expanded; write the full path`)
	case strings.ContainsRune(p, 0):
		return "", errors.New("the path contains a NUL character")
	case p == "" || filepath.IsAbs(p):
		return p, nil
	}
	return filepath.Join(dir, p), nil
}

// Size is a number of bytes. It is never negative.
type Size int64

// units returns the factor of each unit. The binary units come first, in descending
// order.
func units() []struct {
	name   string
	factor int64
} {
	return []struct {
		name   string
		factor int64
	}{
		{"TiB", 1 << 40},
		{"GiB", 1 << 30},
		{"MiB", 1 << 20},
		{"KiB", 1 << 10},
		{"TB", 1e12},
		{"GB", 1e9},
		{"MB", 1e6},
		{"kB", 1e3},
		{"KB", 1e3},
		{"T", 1 << 40}, // GNU tools use these abbreviations too
		{"G", 1 << 30},
		{"M", 1 << 20},
		{"K", 1 << 10},
		{"k", 1 << 10},
		{"B", 1},
		{"", 1},
	}
}

// ParseSize parses an integer or decimal number with an optional unit: B, kB, KB, MB,
// GB, TB (powers of 1000), or KiB, MiB, GiB, TiB, k, K, M, G, T (powers of 1024). One
// space may precede the unit. "1.5GiB" is 1610612736. Fractions of a byte are dropped.
func ParseSize(text string) (Size, error) {
	bad := fmt.Errorf(`%q is not a size such as "256MiB" or "4GB"`, text)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, unit := text[:end], strings.TrimPrefix(text[end:], " ")
	if strings.HasSuffix(text, " ") || number == "" || strings.Trim(number, "0123456789.") != "" ||
		strings.HasPrefix(number, ".") || strings.HasSuffix(number, ".") {
		return 0, bad
	}
	for _, u := range units() {
		if u.name != unit {
			continue
		}
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			if n > math.MaxInt64/u.factor {
				return 0, fmt.Errorf("size %q is too large", text)
			}
			return Size(n * u.factor), nil
		}
		f, err := strconv.ParseFloat(number, 64)
		if err != nil || u.factor == 1 {
			return 0, bad
		}
		if f *= float64(u.factor); f >= math.MaxInt64 {
			return 0, fmt.Errorf("size %q is too large", text)
		}
		return Size(f), nil
	}
	return 0, bad
}

// String returns the size in the largest binary unit that divides it, such as
// "256MiB" or "1000B". [ParseSize] accepts the result.
func (s Size) String() string {
	for _, u := range units()[:4] {
		if s != 0 && int64(s)%u.factor == 0 {
			return strconv.FormatInt(int64(s)/u.factor, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
