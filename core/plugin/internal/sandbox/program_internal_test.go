//go:build linux && (amd64 || arm64)

package sandbox

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestProgram checks the form of the filters: jumps stay inside the filter, and calls
// on the allow list are neither duplicated nor refused by other rules.
func TestProgram(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{
		{},
		{AllowList: true},
		{AllowList: true, MayExec: true, Network: true, Write: []string{"/"}},
		{Network: true},
		{MayExec: true, Network: true},
		{Write: []string{"/"}},
		{MayExec: true, Write: []string{"/"}},
	} {
		f := program(&p, 1)
		if len(f) > 4096 { // BPF_MAXINSNS
			t.Errorf("%+v: the filter has %d instructions, more than 4096", p, len(f))
		}
		for i, op := range f {
			if last := len(f) - 1; op.Code&0x07 == unix.BPF_JMP && (i+1+int(op.Jt) > last || i+1+int(op.Jf) > last) {
				t.Errorf("%+v: instruction %d jumps outside the filter", p, i)
			}
		}
		list := needed(&p)
		if len(list) > 255 {
			t.Errorf("%+v: the allow list has %d calls, more than a jump can skip", p, len(list))
		}
		slices.Sort(list)
		for i, nr := range list {
			if i > 0 && list[i-1] == nr {
				t.Errorf("%+v: call %d is on the allow list twice", p, nr)
			}
			if slices.Contains(forbidden[:], nr) || slices.Contains(legacy[:], nr) {
				t.Errorf("%+v: call %d is on the allow list, but other rules refuse it", p, nr)
			}
		}
	}
}
