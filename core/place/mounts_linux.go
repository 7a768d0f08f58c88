package place

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mountsBelow returns the mount points below a directory, including bind mounts of
// the same file system.
//
// Source: proc_pid_mountinfo(5).
func mountsBelow(dir string) ([]string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		field := strings.Fields(line)
		if len(field) < 5 {
			continue
		}
		if rest, ok := strings.CutPrefix(unescape(field[4]), strings.TrimSuffix(real, "/")+"/"); ok && rest != "" {
			out = append(out, filepath.Join(dir, rest))
		}
	}
	return out, nil
}

// unescape decodes the octal escapes of mountinfo, which replace characters such as spaces
// and backslashes.
func unescape(s string) string {
	head, rest, found := strings.Cut(s, `\`)
	var b strings.Builder
	for b.WriteString(head); found; b.WriteString(head) {
		if n, err := strconv.ParseUint(rest[:min(3, len(rest))], 8, 8); err == nil && len(rest) >= 3 {
			b.WriteByte(byte(n))
			rest = rest[3:]
		} else {
			b.WriteByte('\\')
		}
		head, rest, found = strings.Cut(rest, `\`)
	}
	return b.String()
}
