package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// trouble is the file driver with keys that make it misbehave. The key "X-once" has the
// effect of the key X only if the object "X-done" does not exist, and creates that object
// first.
type trouble struct{ name string }

func (o trouble) Describe() driver.Description {
	return driver.Description{Name: o.name, Summary: "misbehaves", Grants: []string{"path:read", "path:write"}, Options: []driver.Option{{Name: "flush", Type: "bool", Doc: "durable on flush"}}}
}

func (o trouble) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	var cfg struct {
		Flush bool `json:"flush"`
	}
	if err := driver.DecodeOptions(spec.Options, &cfg); err != nil {
		return nil, err
	}
	if strings.HasSuffix(spec.Path, "die-on-open") {
		os.Exit(9)
	}
	spec.Options = nil
	m, err := file.New().Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &troubledMap{Map: m, flush: cfg.Flush}, nil
}

func (o trouble) Remove(ctx context.Context, spec driver.OpenSpec) error {
	if strings.HasSuffix(spec.Path, "die") {
		os.Exit(9)
	}
	return file.New().Remove(ctx, spec)
}

type troubledMap struct {
	driver.Map
	flush bool
}

func (m *troubledMap) Capabilities() driver.Capabilities {
	c := m.Map.Capabilities()
	if m.flush {
		c.Durable = driver.OnFlush
	}
	return c
}

// act misbehaves as key specifies. It reports whether key has an effect.
func (m *troubledMap) act(ctx context.Context, key string) (bool, error) {
	if what, once := strings.CutSuffix(key, "-once"); once {
		if _, err := m.Map.Stat(ctx, what+"-done"); err == nil {
			return false, nil
		}
		if _, err := m.Map.Put(ctx, what+"-done", driver.Bytes{1}, &driver.PutOptions{}); err != nil {
			return true, err
		}
		key = what
	}
	switch key {
	case "die":
		fmt.Fprintln(os.Stderr, "these are my last words")
		os.Exit(7)
	case "panic":
		panic("out of cheese")
	case "hang":
		say("it hangs")
		select {}
	case "say-wait":
		say("it waits")
		<-ctx.Done()
		return true, ctx.Err()
	case "wait":
		<-ctx.Done()
		return true, ctx.Err()
	case "own-timeout":
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		<-short.Done()
		return true, short.Err()
	case "flood":
		line := strings.Repeat("x", 1000) + "\n"
		for range 20000 {
			fmt.Fprint(os.Stderr, line)
			_, _ = os.NewFile(2, "stderr").WriteString(line)
		}
		fmt.Println("and to standard output")
		return true, nil
	case "kind":
		return true, &ncerr.Error{Kind: ncerr.ErrAuth, Op: "log in", Key: "bucket", Err: fmt.Errorf("no such user"), Retryable: true, RetryAfter: 3 * time.Second}
	}
	return false, nil
}

func (m *troubledMap) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	what, attack := strings.CutPrefix(key, "attack:")
	if key == "pid" || attack {
		text := fmt.Sprint(os.Getpid())
		if attack {
			name, arg, _ := strings.Cut(what, "=")
			text = attempt(name, arg)
		}
		p, err := alloc(int64(len(text)))
		copy(p, text)
		return p, driver.Info{Size: int64(len(text))}, err
	}
	if key == "half" { // the second half is missing
		p, err := alloc(10)
		if err != nil {
			return nil, driver.Info{}, err
		}
		copy(p, "01234")
		return p[:5], driver.Info{Size: 10}, ncerr.New(ncerr.ErrCorrupt, "", "", nil)
	}
	if done, err := m.act(ctx, key); done && err == nil {
		p, err := alloc(2)
		copy(p, "ok")
		return p, driver.Info{Size: 2}, err
	} else if done {
		return nil, driver.Info{}, err
	}
	if strings.HasSuffix(key, "-once") {
		key = strings.TrimSuffix(key, "-once") + "-done"
	}
	return m.Map.Get(ctx, key, opts, alloc)
}

func (m *troubledMap) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	if _, err := m.act(ctx, key); err != nil {
		return driver.Info{}, err
	}
	switch what, _, _ := strings.Cut(key, "#"); what {
	case "slow-put":
		time.Sleep(time.Second)
	case "long-error": // with the maximum length of each field
		return driver.Info{}, &ncerr.Error{Kind: ncerr.ErrAuth, Op: strings.Repeat("\n", 9<<10), Key: strings.Repeat("k", 1<<16-1), Err: errors.New(strings.Repeat("\n", 9<<10))}
	case "long-version":
		return driver.Info{Size: body.Size(), Version: strings.Repeat("v", 100<<10)}, nil
	}
	return m.Map.Put(ctx, key, body, opts)
}

func (m *troubledMap) Flush(ctx context.Context) error {
	if _, err := m.Map.Stat(ctx, "die-on-flush"); err == nil {
		os.Exit(8)
	}
	return m.Map.Flush(ctx)
}

// filters provides two correct codecs and one that misbehaves.
type filters struct{}

func (filters) Describe() []codecdriver.Description {
	return []codecdriver.Description{
		{ID: "xor", V3: "test.xor", Summary: "xor with 0x5a", Encode: true, Decode: true},
		{ID: "twice", Summary: "writes everything twice", Encode: true, Decode: true},
		{ID: "trouble", Summary: "misbehaves", Encode: true, Decode: true},
	}
}

func (filters) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	out := in
	out.Kind, out.Shape = codecdriver.Blob, nil
	switch id {
	case "xor", "test.xor":
		return xor{}, out, nil
	case "twice":
		out.MaxBytes *= 2
		return twice{}, out, nil
	case "trouble":
		var c troubledCodec
		if err := driver.DecodeOptions(params, &c); err != nil {
			return nil, out, err
		}
		return c, out, nil
	}
	return nil, out, ncerr.New(ncerr.ErrNoFilter, "open codec", id, nil)
}

type xor struct{}

func (xor) Encode(_ context.Context, dst, src []byte) (int, error) {
	if len(dst) < len(src) {
		return 0, codecdriver.ShortBuffer("xor", len(dst))
	}
	for i, b := range src {
		dst[i] = b ^ 0x5a
	}
	return len(src), nil
}

func (x xor) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return x.Encode(ctx, dst, src)
}

type twice struct{}

func (twice) Encode(_ context.Context, dst, src []byte) (int, error) {
	if len(dst) < 2*len(src) {
		return 0, codecdriver.ShortBuffer("twice", len(dst))
	}
	return copy(dst, src) + copy(dst[len(src):], src), nil
}

func (twice) Decode(_ context.Context, dst, src []byte) (int, error) {
	n := len(src) / 2
	switch {
	case len(src)%2 != 0 || string(src[:n]) != string(src[n:]):
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the halves differ")
	case len(dst) < n:
		return 0, codecdriver.ShortBuffer("twice", len(dst))
	}
	return copy(dst, src[:n]), nil
}

// troubledCodec returns the result of an operation in the modes attack, child, allocate
// and pid. In other modes it misbehaves on chunks whose first byte is 'X', and returns
// other chunks unchanged.
type troubledCodec struct {
	Mode   string `json:"mode"`
	Marker string `json:"marker"`
}

func (c troubledCodec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return c.Decode(ctx, dst, src)
}

func (c troubledCodec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if what, ok := strings.CutPrefix(c.Mode, "attack:"); ok {
		return copy(dst, attempt(what, string(src))), nil
	}
	if c.Mode == "child" {
		return copy(dst, child()), nil
	}
	if c.Mode == "allocate" {
		n, err := strconv.Atoi(string(src))
		return copy(dst, allocate(n)), err
	}
	if c.Mode == "pid" {
		return copy(dst, fmt.Sprint(os.Getpid())), nil
	}
	if len(src) == 0 || src[0] != 'X' {
		return copy(dst, src), nil
	}
	if c.Marker != "" {
		if _, err := os.Stat(c.Marker); err == nil {
			return copy(dst, src), nil
		}
		if err := os.WriteFile(c.Marker, nil, 0o600); err != nil {
			return 0, err
		}
	}
	switch c.Mode {
	case "die":
		os.Exit(7)
	case "panic":
		panic("out of cheese")
	case "hang":
		select {}
	case "wait":
		<-ctx.Done()
		return 0, ctx.Err()
	case "claim":
		return len(dst) + 1, nil
	case "raw":
		return 0, fmt.Errorf("no kind at all")
	}
	return 0, ncerr.New(ncerr.ErrInvalid, "", "", nil)
}
