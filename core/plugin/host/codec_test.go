package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
)

// pipeline opens a pipeline of steps in the plugin that serves the first one.
func pipeline(t *testing.T, h *host.Host, in int64, steps ...codecdriver.Step) (codecdriver.Pipeline, []codecdriver.Spec) {
	t.Helper()
	p, err := h.Filter(steps[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	pl, specs, err := p.(codecdriver.PipelineOpener).OpenPipeline(t.Context(), steps, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: in})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pl.Close() })
	return pl, specs
}

// encodeOne encodes one chunk.
func encodeOne(ctx context.Context, t *testing.T, pl codecdriver.Pipeline, src []byte) []byte {
	t.Helper()
	var got []byte
	err := pl.EncodeMany(ctx, []codecdriver.Job{{Src: src, Limit: 100 + 2*int64(len(src))}}, func(_ int, out []byte, err error) {
		if err != nil {
			t.Error(err)
		}
		got = bytes.Clone(out)
	})
	if err != nil {
		t.Error(err)
	}
	return got
}

// TestPipeline checks that a pipeline of two steps encodes and decodes chunks of many
// sizes.
func TestPipeline(t *testing.T) {
	t.Parallel()
	for _, isolation := range []host.Isolation{host.Process, host.Loopback, inlineProcess} {
		h := newHost(t, levelOptions(isolation))
		pl, specs := pipeline(t, h, 4*plugin.MaxPart, codecdriver.Step{ID: "xor"}, codecdriver.Step{ID: "twice"})
		if len(specs) != 2 || specs[0].MaxBytes != 4*plugin.MaxPart || specs[1].MaxBytes != 8*plugin.MaxPart {
			t.Fatalf("%s: got specs %+v", isolation, specs)
		}
		var jobs []codecdriver.Job
		for i, n := range []int{0, 1, 100, 100, 65536, plugin.MaxPart, plugin.MaxPart + 1, 4 * plugin.MaxPart, 7, 7} {
			jobs = append(jobs, codecdriver.Job{Src: bytes.Repeat([]byte{byte(i), 9, 7}, n/3+1)[:n], Limit: 8 * plugin.MaxPart, Skip: uint32(i % 4)})
		}
		coded := make([]codecdriver.Job, len(jobs))
		err := pl.EncodeMany(t.Context(), jobs, func(i int, out []byte, err error) {
			want := len(jobs[i].Src)
			if jobs[i].Skip&2 == 0 {
				want *= 2
			}
			if err != nil || len(out) != want {
				t.Errorf("%s: job %d: want %d bytes, got %d, %v", isolation, i, want, len(out), err)
			}
			coded[i] = codecdriver.Job{Src: append([]byte(nil), out...), Limit: int64(len(jobs[i].Src)), Skip: jobs[i].Skip}
			if i%2 == 0 {
				coded[i].Dst = bytes.Repeat([]byte{'_'}, len(jobs[i].Src)+8)[:len(jobs[i].Src)]
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		err = pl.DecodeMany(t.Context(), coded, func(i int, out []byte, err error) {
			seen++
			if err != nil || !bytes.Equal(out, jobs[i].Src) {
				t.Errorf("%s: job %d: got %d bytes, %v", isolation, i, len(out), err)
			}
			if dst := coded[i].Dst; dst != nil && string(dst[len(dst):len(dst)+8]) != "________" {
				t.Errorf("%s: job %d: the host wrote past the destination", isolation, i)
			}
		})
		if err != nil || seen != len(jobs) {
			t.Errorf("%s: got results of %d of %d jobs, %v", isolation, seen, len(jobs), err)
		}
		if i := h.Plugins()[0]; i.Jobs != int64(2*len(jobs)) || i.Bytes == 0 {
			t.Errorf("%s: want %d jobs counted, got %+v", isolation, 2*len(jobs), i)
		}
	}
}

// TestCodecErrors checks the errors of opening codecs and of decoding single chunks.
func TestCodecErrors(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	p, err := h.Filter("test.xor")
	if err != nil {
		t.Fatal(err)
	}
	spec := codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 100}
	for id, want := range map[string]ncerr.Kind{"floppy": ncerr.ErrNoFilter, "trouble": ncerr.ErrInvalid} {
		if _, _, err := p.Open(id, []byte(`{"colour":1}`), spec); !errors.Is(err, want) {
			t.Errorf("open %s: want %s, got %v", id, want.Name(), err)
		}
	}
	if _, _, err := p.Open("xor", nil, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 1 << 60}); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("open with a huge chunk: want ErrLimit, got %v", err)
	}
	for _, tc := range []struct {
		id, params string
		src        string
		dstSize    int
		want       ncerr.Kind
		text       string
	}{
		{"twice", "", "abac", 10, ncerr.ErrCorrupt, "halves"},
		{"twice", "", "abab", 1, ncerr.ErrShortBuffer, ""},
		{"trouble", `{"mode":"panic"}`, "X", 10, ncerr.ErrFilter, "out of cheese"},
		{"trouble", `{"mode":"claim"}`, "X", 10, ncerr.ErrInternal, "returned a length"},
		{"trouble", `{"mode":"raw"}`, "X", 10, ncerr.ErrFilter, "no kind at all"},
		{"trouble", `{"mode":"hang"}`, "X", 10, ncerr.ErrPlugin, "did not respond"},
	} {
		c, _, err := p.Open(tc.id, []byte(tc.params), spec)
		if err != nil {
			t.Fatal(err)
		}
		if tc.text == "did not respond" {
			host.SetCallTimeout(h, time.Second)
		}
		n, err := c.Decode(t.Context(), make([]byte, tc.dstSize), []byte(tc.src))
		host.SetCallTimeout(h, 2*time.Minute)
		if n != 0 || ncerr.KindOf(err) != tc.want || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s %s: want %s with %q, got %d, %v", tc.id, tc.params, tc.want.Name(), tc.text, n, err)
		}
	}
	c, _, err := p.Open("trouble", []byte(`{"mode":"wait"}`), spec)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Decode(ctx, make([]byte, 10), []byte("X")); err != context.DeadlineExceeded { //nolint:errorlint // the host must return it unchanged
		t.Errorf("want the caller's deadline, got %v", err)
	}
}

// TestPoison decodes a chunk that kills the plugin. If the chunk kills the plugin only
// once, all jobs must succeed. If it kills the plugin each time, only the job of the chunk
// may fail.
func TestPoison(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		always := n%2 == 1
		h := newHost(t, host.Options{Sandbox: host.SandboxOff, InlineOnly: n < 2}) // the plugin writes a marker file
		params := `{"mode":"die"}`
		if !always {
			params = fmt.Sprintf(`{"mode":"die","marker":%q}`, filepath.Join(t.TempDir(), "m"))
		}
		pl, _ := pipeline(t, h, 100, codecdriver.Step{ID: "trouble", Params: []byte(params)})
		jobs := make([]codecdriver.Job, 20)
		for i := range jobs {
			jobs[i] = codecdriver.Job{Src: []byte{byte(i), 1}, Limit: 2}
		}
		jobs[13].Src[0] = 'X'
		done := map[int]int{}
		err := pl.DecodeMany(t.Context(), jobs, func(i int, out []byte, err error) {
			done[i]++
			switch {
			case always && i == 13:
				if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "each time") {
					t.Errorf("want ErrPlugin about the chunk, got %v", err)
				}
			case err != nil || !bytes.Equal(out, jobs[i].Src):
				t.Errorf("job %d: got %q, %v", i, out, err)
			}
		})
		if err != nil || len(done) != len(jobs) {
			t.Errorf("want all jobs done, got %d, %v", len(done), err)
		}
		for i, n := range done {
			if n != 1 {
				t.Errorf("job %d was delivered %d times", i, n)
			}
		}
	}
}
