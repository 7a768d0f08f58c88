package zip_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// bzipped is an archive with the members a/long (1,000 times "abcdefgh") and empty,
// created by Python's zipfile with ZIP_BZIP2.
const bzipped = "" +
	"504b03042e0000000c000000215c88ba2dbc3a000000401f000006000000612f6c6f6e67425a68393141592653596ada76a50001f381003fc0200050" +
	"860409aa803d520c54833520d54837520e5483b520f5483e2ee48a70a120d5b4ed4a504b03042e0000000c000000215c000000000e00000000000000" +
	"05000000656d707479425a683917724538509000000000504b01022e032e0000000c000000215c88ba2dbc3a000000401f0000060000000000000000" +
	"000000800100000000612f6c6f6e67504b01022e032e0000000c000000215c000000000e0000000000000005000000000000000000000080015e0000" +
	"00656d707479504b05060000000002000200670000008f0000000000"

// TestBzip2 checks that members compressed with bzip2, as zarr-python's ZipStore can
// write them, are readable in whole and in part, and that damage is an error.
func TestBzip2(t *testing.T) {
	t.Parallel()
	body, err := hex.DecodeString(bzipped)
	if err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("abcdefgh"), 1000)
	read := func(body []byte, key string, o driver.GetOptions) ([]byte, error) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "x.zip")
		if err := os.WriteFile(name, body, 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := zip.New().Open(t.Context(), driver.OpenSpec{Path: name})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(t.Context())
		got, _, err := m.Get(t.Context(), key, &o, driver.Heap)
		return got, err
	}
	if got, err := read(body, "a/long", driver.GetOptions{}); err != nil || !bytes.Equal(got, long) {
		t.Errorf("want the whole member, got %d bytes, %v", len(got), err)
	}
	if got, err := read(body, "a/long", driver.GetOptions{Range: &driver.Range{Offset: 1001, Length: 9}}); err != nil || string(got) != "bcdefghab" {
		t.Errorf("want \"bcdefghab\", got %q, %v", got, err)
	}
	if got, err := read(body, "empty", driver.GetOptions{}); err != nil || len(got) != 0 {
		t.Errorf("want an empty object, got %q, %v", got, err)
	}
	at := bytes.Index(body, []byte("BZh"))
	for i := at; i < at+30; i += 3 {
		bad := bytes.Clone(body)
		bad[i] ^= 0x55
		if got, err := read(bad, "a/long", driver.GetOptions{}); !errors.Is(err, ncerr.ErrCorrupt) {
			t.Errorf("byte %d changed: %d bytes, %v", i, len(got), err)
		}
	}
}

// bzippedZeros is an archive with one member of a billion zeros, created by Python's
// zipfile with ZIP_BZIP2.
const bzippedZeros = "" +
	"504b03042e0000000c000000215c4257f463d202000000ca9a3b050000007a65726f73425a68393141592653590e09e2df015f8e4000c00000082000" +
	"30804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c000" +
	"0008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e" +
	"4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2" +
	"df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653" +
	"590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a809731" +
	"41592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a9" +
	"0a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d46" +
	"42a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c00000082000" +
	"30804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c000" +
	"0008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e" +
	"4000c0000008200030804d4642a025a90a80973141592653590e09e2df015f8e4000c0000008200030804d4642a025a90a8097314159265359430425" +
	"f501149fc020c00000040008200030cc0529a6aaa22436009121e2ee48a70a1204b68316e0504b01022e032e0000000c000000215c4257f463d20200" +
	"0000ca9a3b0500000000000000000000008001000000007a65726f73504b0506000000000100010033000000f50200000000"

// TestBzip2OfZeros checks that data with an extreme compression ratio is readable, and
// that reading ends with its context, although all input is read before the first
// output.
func TestBzip2OfZeros(t *testing.T) {
	t.Parallel()
	body, err := hex.DecodeString(bzippedZeros)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(name, body, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := zip.New().Open(t.Context(), driver.OpenSpec{Path: name})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	part := driver.GetOptions{Range: &driver.Range{Offset: 999_999_999, Length: 1}}
	_, _, err = m.Get(ctx, "zeros", &part, func(n int64) ([]byte, error) {
		cancel()
		return driver.Heap(n)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want the error of the context, got %v", err)
	}
}
