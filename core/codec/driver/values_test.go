package driver_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func TestValuesRoundTrip(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "values")
		size := driver.ValuesSize(len(want), 0)
		for _, v := range want {
			size += int64(len(v))
		}
		dst := bytes.Repeat([]byte{0xC5}, int(size)+rapid.IntRange(0, 9).Draw(t, "spare"))
		w, err := driver.NewValuesWriter(dst, len(want))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range want {
			if err := w.Add(v); err != nil {
				t.Fatal(err)
			}
		}
		n, err := w.Done()
		if err != nil || int64(n) != size {
			t.Fatalf("want %d bytes, got %d, %v", size, n, err)
		}
		got, err := driver.ParseValues(dst[:n], len(want))
		if err != nil || got.Len() != len(want) {
			t.Fatalf("want %d values, got %d, %v", len(want), got.Len(), err)
		}
		for i, v := range want {
			if !bytes.Equal(v, got.At(i)) {
				t.Fatalf("value %d: want %q, got %q", i, v, got.At(i))
			}
		}
	})
}

func TestValuesLayout(t *testing.T) {
	t.Parallel()
	dst := make([]byte, 100)
	w, err := driver.NewValuesWriter(dst, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"ab", "", "c"} {
		if err := w.AddString(s); err != nil {
			t.Fatal(err)
		}
	}
	n, err := w.Done()
	want := "\x00\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00abc"
	if err != nil || string(dst[:n]) != want {
		t.Errorf("want %q, got %q, %v", want, dst[:n], err)
	}
}

func TestValuesFaults(t *testing.T) {
	t.Parallel()
	offsets := func(data string, at ...uint32) []byte {
		var b []byte
		for _, v := range at {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return append(b, data...)
	}
	for name, b := range map[string][]byte{
		"nothing":            nil,
		"cut offsets":        offsets("", 0, 1)[:7],
		"falling":            offsets("abc", 0, 2, 1, 3),
		"not from the start": offsets("abc", 1, 2, 3, 3),
		"data missing":       offsets("ab", 0, 1, 2, 3),
		"data left":          offsets("abcd", 0, 1, 2, 3),
		"huge":               offsets("abc", 0, 1, 2, 1<<32-1),
	} {
		if _, err := driver.ParseValues(b, 3); ncerr.KindOf(err) != ncerr.ErrCorrupt {
			t.Errorf("%s: want ErrCorrupt, got %v", name, err)
		}
	}
	if _, err := driver.NewValuesWriter(make([]byte, 7), 1); ncerr.KindOf(err) != ncerr.ErrShortBuffer {
		t.Errorf("no room for offsets: want ErrShortBuffer, got %v", err)
	}
	w, err := driver.NewValuesWriter(make([]byte, 10), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Done(); ncerr.KindOf(err) != ncerr.ErrCorrupt {
		t.Errorf("too few values: want ErrCorrupt, got %v", err)
	}
	if err := w.AddString("abc"); ncerr.KindOf(err) != ncerr.ErrShortBuffer {
		t.Errorf("no room for data: want ErrShortBuffer, got %v", err)
	}
	if err := w.AddString("ab"); err != nil {
		t.Error(err)
	}
	if err := w.AddString(""); ncerr.KindOf(err) != ncerr.ErrCorrupt {
		t.Errorf("too many values: want ErrCorrupt, got %v", err)
	}
}

func FuzzParseValues(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 0, 0, 0, 'a', 'b'}, 1)
	f.Add([]byte{0, 0, 0, 0}, 0)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		v, err := driver.ParseValues(b, n)
		if err != nil {
			return
		}
		total := 0
		for i := range v.Len() {
			total += len(v.At(i))
		}
		if v.Len() != n || driver.ValuesSize(n, int64(total)) != int64(len(b)) {
			t.Errorf("got %d values, want %d; they have %d bytes in a layout of %d bytes", v.Len(), n, total, len(b))
		}
	})
}
