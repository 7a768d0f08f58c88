package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// roundTrip converts an error to a gRPC status and back, as a call with ctx does.
func roundTrip(ctx context.Context, err error) error {
	return wire.FromStatus(ctx, wire.Status(ctx, err))
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, row := range ncerr.Table() {
		in := &ncerr.Error{Kind: row.Kind, Op: "do", Key: "k/\xff", Err: errors.New("because"), Retryable: true, RetryAfter: time.Second}
		got := roundTrip(t.Context(), in)
		if !errors.Is(got, row.Kind) || ncerr.KindOf(got) != row.Kind || got.Error() != in.Error() {
			t.Errorf("%s: want %q, got %q", row.Name, in, got)
		}
		if retry, after := ncerr.Retry(got); !retry || after != time.Second {
			t.Errorf("%s: want a retry after 1s, got %t, %v", row.Name, retry, after)
		}
		if got := roundTrip(t.Context(), row.Kind); ncerr.KindOf(got) != row.Kind || got.Error() != row.Kind.Error() {
			t.Errorf("%s bare: want %q, got %q", row.Name, row.Kind, got)
		}
		if code := status.Code(wire.Status(t.Context(), in)); uint32(code) != row.GRPC {
			t.Errorf("%s: want code %d, got %v", row.Name, row.GRPC, code)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	expiring, cancel2 := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel2()
	active, cancel3 := context.WithTimeout(context.Background(), time.Hour)
	defer cancel3()
	for name, tc := range map[string]struct {
		got  error
		kind ncerr.Kind
		is   error
		text string
	}{
		"none":                      {got: roundTrip(active, nil)},
		"raw":                       {roundTrip(active, errors.New("boom")), ncerr.ErrIO, ncerr.ErrIO, "i/o failure: boom"},
		"raw, fs.ErrNotExist":       {roundTrip(active, fs.ErrNotExist), ncerr.ErrIO, nil, "file does not exist"},
		"wrapped kind":              {roundTrip(active, fmt.Errorf("x: %w", ncerr.ErrNotFound)), ncerr.ErrNotFound, fs.ErrNotExist, "x: "},
		"ErrIO with ErrNotFound":    {roundTrip(active, ncerr.New(ncerr.ErrIO, "get", "k", ncerr.ErrNotFound)), ncerr.ErrIO, nil, "no object"},
		"own cancellation":          {roundTrip(ended, ended.Err()), 0, context.Canceled, ""},
		"time-out of the driver":    {roundTrip(active, context.DeadlineExceeded), ncerr.ErrIO, nil, "deadline"},
		"deadline, a little early":  {wire.FromStatus(expiring, status.Error(codes.DeadlineExceeded, "x")), 0, context.DeadlineExceeded, ""},
		"deadline of the plugin":    {wire.FromStatus(active, status.Error(codes.DeadlineExceeded, "x")), ncerr.ErrIO, nil, "timed out in the plugin"},
		"connection gone":           {wire.FromStatus(active, status.Error(codes.Unavailable, "EOF")), ncerr.ErrPlugin, wire.ErrTransport, "EOF"},
		"connection closed by host": {wire.FromStatus(active, status.Error(codes.Canceled, "closing")), ncerr.ErrPlugin, wire.ErrTransport, ""},
		"no such method":            {wire.FromStatus(active, status.Error(codes.Unimplemented, "x")), ncerr.ErrPlugin, nil, "does not implement a method"},
		"message too long":          {wire.FromStatus(active, status.Error(codes.ResourceExhausted, "x")), ncerr.ErrPlugin, nil, "longer"},
		"no detail":                 {wire.FromStatus(active, status.Error(codes.NotFound, "x")), ncerr.ErrPlugin, nil, "NotFound"},
		"no status":                 {wire.FromStatus(active, errors.New("strange")), ncerr.ErrPlugin, nil, "strange"},
		"no detail in a batch":      {wire.FromDetail(nil), ncerr.ErrPlugin, nil, ""},
		"unknown kind":              {wire.FromDetail(&pb.ErrorDetail{Kind: 60000, Op: "o", Key: []byte("k"), Message: "m"}), ncerr.ErrOther, nil, `o "k": failure: m`},
		"unknown kind, large":       {wire.FromDetail(&pb.ErrorDetail{Kind: 1<<16 + 1}), ncerr.ErrOther, nil, "failure"},
		"answer after the deadline": {wire.FromStatus(ended, wire.Status(active, ncerr.ErrAuth)), 0, context.Canceled, ""},
	} {
		if name == "none" {
			if tc.got != nil {
				t.Errorf("%s: got %v", name, tc.got)
			}
			continue
		}
		if tc.got == nil || ncerr.KindOf(tc.got) != tc.kind || tc.is != nil && !errors.Is(tc.got, tc.is) || !strings.Contains(tc.got.Error(), tc.text) {
			t.Errorf("%s: got %v (kind %v)", name, tc.got, ncerr.KindOf(tc.got))
		}
		if tc.is == nil && (errors.Is(tc.got, fs.ErrNotExist) || ncerr.IsContext(tc.got)) {
			t.Errorf("%s: %v also matches fs.ErrNotExist or a context error", name, tc.got)
		}
	}
}

func FuzzWireError(f *testing.F) {
	f.Add(uint32(1), "get", []byte("a/b"), "no luck", int64(5), true)
	f.Add(uint32(1<<31), "\xff", []byte{0xfe, 0}, strings.Repeat("x", 9000), int64(-1), false)
	f.Fuzz(func(t *testing.T, kind uint32, op string, key []byte, message string, after int64, retry bool) {
		raw, err := proto.Marshal(&pb.ErrorDetail{Kind: kind, Op: strings.ToValidUTF8(op, ""), Key: key, Message: strings.ToValidUTF8(message, ""), RetryAfterNanos: after, Retryable: retry})
		if err != nil {
			t.Fatal(err)
		}
		var d pb.ErrorDetail
		if err := proto.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		got := wire.FromDetail(&d)
		var e *ncerr.Error
		if !errors.As(got, &e) || !e.Kind.Known() || e.RetryAfter < 0 || !utf8.ValidString(e.Op) {
			t.Fatalf("got %#v", got)
		}
		again := roundTrip(context.Background(), got)
		if ncerr.KindOf(again) != e.Kind || string(key) != e.Key {
			t.Errorf("want %v, got %v", got, again)
		}
		// The message of an error in Go need not be valid UTF-8.
		in := &ncerr.Error{Kind: ncerr.ErrIO, Op: op, Key: string(key), Err: errors.New(message)}
		if out := roundTrip(context.Background(), in); ncerr.KindOf(out) != ncerr.ErrIO {
			t.Errorf("want ErrIO, got %v", out)
		}
	})
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	for _, d := range []driver.Description{{}, {
		Name: "n", Summary: "s", Siblings: true, Grants: []string{"network"}, Options: []driver.Option{{Name: "o", Type: "int", Default: "1", Doc: "d", Secret: true, From: driver.FromQuery}},
		Locality: driver.OnServer, Nested: true, Schemes: []string{"a", "b"}, Servers: true,
	}} {
		if got := wire.DriverFromWire(wire.DriverToWire(d)); !reflect.DeepEqual(got, d) {
			t.Errorf("want %+v, got %+v", d, got)
		}
	}
	for _, d := range []codecdriver.Description{
		{},
		{ID: "i", V3: "v", HDF5: 32015, Summary: "s", Encode: true, Decode: true, Lossy: true},
		{ID: "i", LossNote: "l", Transform: codecdriver.ArrayToBytes, Preparation: true, Objects: codecdriver.Text, Aliases: []string{"a", "b"}, Params: []codecdriver.Param{
			{Name: "n", Type: codecdriver.IntParam, Min: -2, Max: 3, Default: "1", Input: codecdriver.InputSize, HDF5: 2, HDF5Default: "3", Doc: "d"},
			{Name: "t", Type: codecdriver.TextParam, Choices: []string{"x"}, Required: true},
		}},
	} {
		if got := wire.CodecFromWire(wire.CodecToWire(d)); !reflect.DeepEqual(got, d) {
			t.Errorf("want %+v, got %+v", d, got)
		}
	}
	for _, c := range []driver.Capabilities{{}, {Ranges: true, List: true, Write: true, Delete: true, IfAbsent: true, IfMatch: true, RecursiveList: true, OrderedList: true, PrefixExclusive: true, Durable: driver.OnFlush, MaxKey: 9, MaxObject: 5 << 40, Latency: driver.Remote}} {
		if got := wire.CapabilitiesFromWire(wire.CapabilitiesToWire(c)); got != c {
			t.Errorf("want %+v, got %+v", c, got)
		}
	}
	if c := wire.CapabilitiesFromWire(&pb.Capabilities{Durable: 9, Latency: 9}); c.Durable != driver.OnFlush || c.Latency != driver.Remote {
		t.Errorf("unknown enum values: got %+v", c)
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	spec := driver.OpenSpec{Path: "/a/\xff", Endpoint: "http://h", Options: []byte(`{}`), Mode: driver.CreateExclusive, Documents: []string{".zgroup", "\xff"}}
	if name, got, err := wire.OpenFromWire(wire.OpenToWire("file", spec)); err != nil || name != "file" || !reflect.DeepEqual(got, spec) {
		t.Errorf("want %+v, got %+v, %v", spec, got, err)
	}
	if _, _, err := wire.OpenFromWire(&pb.OpenRequest{Mode: 4}); !errors.Is(err, ncerr.ErrUnsupported) {
		t.Errorf("unknown mode: got %v", err)
	}
	for _, o := range []driver.GetOptions{{}, {Range: &driver.Range{Offset: -5, Length: -1}, IfMatch: "\xffv", Limit: 7}, {Range: &driver.Range{}}} {
		if key, got, err := wire.GetFromWire(wire.GetToWire("k", o)); err != nil || key != "k" || !reflect.DeepEqual(got, o) {
			t.Errorf("want %+v, got %+v, %v", o, got, err)
		}
	}
	for _, r := range []*pb.Range{{Offset: -1, Length: 1}, {Length: -2}} {
		if _, _, err := wire.GetFromWire(&pb.GetSpec{Range: r}); !errors.Is(err, ncerr.ErrRange) {
			t.Errorf("range %v: want ErrRange, got %v", r, err)
		}
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size, length int64
		opts         driver.GetOptions
		ok           bool
	}{
		"whole":          {10, 10, driver.GetOptions{}, true},
		"short":          {10, 9, driver.GetOptions{}, false},
		"range":          {10, 3, driver.GetOptions{Range: &driver.Range{Offset: 7, Length: 3}}, true},
		"range outside":  {10, 3, driver.GetOptions{Range: &driver.Range{Offset: 8, Length: 3}}, false},
		"to the end":     {10, 2, driver.GetOptions{Range: &driver.Range{Offset: 8, Length: -1}}, true},
		"suffix":         {10, 10, driver.GetOptions{Range: &driver.Range{Offset: -20, Length: -1}}, true},
		"above limit":    {10, 10, driver.GetOptions{Limit: 9}, false},
		"negative":       {-1, -1, driver.GetOptions{}, false},
		"negative range": {10, -3, driver.GetOptions{Range: &driver.Range{Offset: 7, Length: 3}}, false},
	} {
		_, n, err := wire.HeadFromWire(&pb.GetHead{Info: &pb.Info{Size: tc.size}, Length: tc.length}, tc.opts)
		if tc.ok != (err == nil) || tc.ok && n != tc.length || !tc.ok && !errors.Is(err, ncerr.ErrPlugin) {
			t.Errorf("%s: got %d, %v", name, n, err)
		}
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	for _, i := range []driver.Info{{}, {Size: 5, NoRanges: true, Version: "\xff\"etag\"", ModTime: time.Unix(3, 4).UTC()}} {
		if got, err := wire.InfoFromWire(wire.InfoToWire(i), false); err != nil || got != i {
			t.Errorf("want %+v, got %+v, %v", i, got, err)
		}
	}
	e := driver.Entry{Key: "a/\xfe/", Prefix: true, Info: driver.Info{Size: -1}}
	if got, err := wire.EntryFromWire(wire.EntryToWire(e)); err != nil || got != e {
		t.Errorf("want %+v, got %+v, %v", e, got, err)
	}
	for _, m := range []*pb.Entry{{}, {Key: []byte("k"), Info: &pb.Info{Size: -2}}} {
		if _, err := wire.EntryFromWire(m); !errors.Is(err, ncerr.ErrPlugin) {
			t.Errorf("%v: want ErrPlugin, got %v", m, err)
		}
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	for _, s := range []codecdriver.Spec{
		{},
		{Kind: codecdriver.Blob, MaxBytes: 9},
		{Kind: codecdriver.Array, DType: dtype.Type{Kind: dtype.Datetime, Size: 8, Order: dtype.Big, Unit: "25s"}, Shape: []int{3, 0, 7}, Order: codecdriver.F, MaxBytes: 8, Fill: []byte{}},
	} {
		if got, err := wire.SpecFromWire(wire.SpecToWire(s)); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("want %+v, got %+v, %v", s, got, err)
		}
	}
	for name, m := range map[string]*pb.Spec{
		"nil": nil, "kind": {Kind: 2}, "order": {Order: 2}, "size": {MaxBytes: -1}, "rank": {Shape: make([]uint64, 5000)},
		"dimension": {Shape: []uint64{1 << 63}}, "type": {Dtype: &pb.ElementType{Kind: 99}}, "element": {Dtype: &pb.ElementType{Size: 1 << 30}},
	} {
		if _, err := wire.SpecFromWire(m); !errors.Is(err, ncerr.ErrInvalid) {
			t.Errorf("%s: want ErrInvalid, got %v", name, err)
		}
		if _, err := wire.SpecsFromReply([]*pb.Spec{m}, 1); !errors.Is(err, ncerr.ErrPlugin) {
			t.Errorf("%s in a reply: want ErrPlugin, got %v", name, err)
		}
	}
	steps := []codecdriver.Step{{ID: "a", Params: []byte(`{"x":1}`)}, {ID: "b"}}
	if got := wire.StepsFromWire(wire.StepsToWire(steps)); !reflect.DeepEqual(got, steps) {
		t.Errorf("want %+v, got %+v", steps, got)
	}
}
