package writers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"sync"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// errKilled is the error of an operation during which the process of the writer was killed.
var errKilled = errors.New("the process was killed")

// The operations of a request.
const (
	opOpen    = "open"
	opRead    = "read"
	opShape   = "shape"
	opWrite   = "write"
	opAttr    = "attr"
	opRefresh = "refresh"
	opFlush   = "flush"
	opClose   = "close"
	opAbort   = "abort"
)

// request is a message to the process of a writer. A request without Op lets it continue after a
// pause.
type request struct {
	Op     string
	URL    string  `json:",omitempty"`
	Faults float64 `json:",omitempty"`
	Seed   uint64  `json:",omitempty"`
	Path   string  `json:",omitempty"`
	Start  []int64 `json:",omitempty"`
	Count  []int64 `json:",omitempty"`
	Values []int32 `json:",omitempty"`
	// Pause is the request to the store before which the process pauses; 0 means none.
	Pause int64 `json:",omitempty"`
}

// reply is the answer to a request, or, with Paused set, a message that the process waits.
type reply struct {
	Paused   bool
	Error    string   `json:",omitempty"`
	Conflict bool     `json:",omitempty"` // the kind of Error is ncerr.ErrConflict
	Shape    []int64  `json:",omitempty"`
	Values   []int32  `json:",omitempty"`
	Warned   []string `json:",omitempty"` // paths of variables for which a warning was logged since the last reply
}

// process is a writer in another process.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	enc    *json.Encoder
	dec    *json.Decoder
	pause  int64
	f      func()
	warned func(path string)
	ended  bool
}

// startProcess starts the process of a writer, which calls [Serve].
func startProcess(cmd *exec.Cmd, warned func(path string)) (*process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(out), warned: warned}, nil
}

// call sends a request and returns the reply. It fails with errKilled if the process was killed.
func (p *process) call(r request) (reply, error) {
	if p.pause > 0 {
		r.Pause = p.pause
	}
	for {
		var got reply
		err := p.enc.Encode(r)
		if err == nil {
			err = p.dec.Decode(&got)
		}
		switch {
		case err != nil && p.ended:
			return reply{}, errKilled
		case err != nil:
			p.kill()
			return reply{}, err
		}
		for _, path := range got.Warned {
			p.warned(path)
		}
		switch {
		case got.Paused:
			p.pause = 0
			if p.f(); p.ended {
				return reply{}, errKilled
			}
			r = request{}
			continue
		case got.Conflict:
			return got, ncerr.Errorf(ncerr.ErrConflict, "", "", "%s", got.Error)
		case got.Error != "":
			return got, errors.New(got.Error)
		}
		return got, nil
	}
}

func (p *process) read(_ context.Context, path string) (shape []int64, values []int32, err error) {
	got, err := p.call(request{Op: opRead, Path: path})
	return got.Shape, got.Values, err
}

func (p *process) shape(_ context.Context, path string) ([]int64, error) {
	got, err := p.call(request{Op: opShape, Path: path})
	return got.Shape, err
}

func (p *process) write(_ context.Context, path string, sel chunk.Selection, values []int32) error {
	_, err := p.call(request{Op: opWrite, Path: path, Start: sel.Start, Count: sel.Count, Values: values})
	return err
}

func (p *process) setAttr(_ context.Context, name string) error {
	_, err := p.call(request{Op: opAttr, Path: name})
	return err
}

func (p *process) refresh(context.Context) error {
	_, err := p.call(request{Op: opRefresh})
	return err
}

func (p *process) flush(context.Context) error {
	_, err := p.call(request{Op: opFlush})
	return err
}

func (p *process) close(context.Context) error { return p.end(opClose) }
func (p *process) abort(context.Context) error { return p.end(opAbort) }

// end closes or aborts the dataset and ends the process.
func (p *process) end(op string) error {
	_, err := p.call(request{Op: op})
	p.kill()
	return err
}

func (p *process) interrupt(request int64, f func()) { p.pause, p.f = request, f }

// kill sends SIGKILL to the process and waits for its end.
func (p *process) kill() {
	if p.ended {
		return
	}
	p.ended = true
	_ = p.cmd.Process.Kill()
	_ = p.in.Close()
	_ = p.cmd.Wait() // reports the signal
}

// Serve executes the requests of a writer that [Run] has started in this process, which is
// Config.Command. It opens the dataset with the given options, and returns when in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o dataset.Options) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var mu sync.Mutex
	var warned []string
	takeWarned := func() []string {
		mu.Lock()
		defer mu.Unlock()
		list := warned
		warned = nil
		return list
	}
	o.Log = slog.New(&warnings{warned: func(path string) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, path)
	}})
	var l *local
	for {
		var r request
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if l != nil && r.Pause > 0 {
			l.interrupt(r.Pause, func() { // the other side waits for a reply, and this process for the request after it
				var next request
				if enc.Encode(reply{Paused: true, Warned: takeWarned()}) == nil {
					_ = dec.Decode(&next)
				}
			})
		}
		var got reply
		var err error
		if r.Op == opOpen {
			l, err = openLocal(ctx, r.URL, o, r.Faults, r.Seed)
		} else {
			got, err = l.do(ctx, &r)
			l.interrupt(-1, nil)
		}
		if err != nil {
			got.Error, got.Conflict = err.Error(), ncerr.KindOf(err) == ncerr.ErrConflict
		}
		got.Warned = takeWarned()
		if err := enc.Encode(got); err != nil {
			return err
		}
	}
}

// do executes one request.
func (l *local) do(ctx context.Context, r *request) (got reply, err error) {
	switch r.Op {
	case opRead:
		got.Shape, got.Values, err = l.read(ctx, r.Path)
	case opShape:
		got.Shape, err = l.shape(ctx, r.Path)
	case opWrite:
		err = l.write(ctx, r.Path, chunk.Selection{Start: r.Start, Count: r.Count}, r.Values)
	case opAttr:
		err = l.setAttr(ctx, r.Path)
	case opRefresh:
		err = l.refresh(ctx)
	case opFlush:
		err = l.flush(ctx)
	case opClose:
		err = l.close(ctx)
	case opAbort:
		err = l.abort(ctx)
	default:
		err = errors.New("unknown operation " + r.Op)
	}
	return got, err
}
