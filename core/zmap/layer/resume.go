package layer

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// enough is how many bytes a try must bring so as not to count.
const enough = 64 << 10

// landed is the memory of one object that is read in several tries.
type landed struct {
	alloc driver.Alloc
	asked bool
	mem   []byte
	n     int         // bytes of mem that are right
	start int64       // of mem in the object
	info  driver.Info // of the object that they are from
}

// take gives each try the memory of the first.
func (l *landed) take(n int64) ([]byte, error) {
	if l.asked {
		if n != int64(len(l.mem)) {
			return nil, ncerr.Errorf(ncerr.ErrConflict, "", "", "%d bytes at first, %d when read again", len(l.mem), n)
		}
		return l.mem, nil
	}
	p, err := l.alloc(n)
	if err == nil {
		l.mem, l.asked = p, true
	}
	return p, err
}

// rest gives what is still to come: the options of the Get that goes on, and
// whether that is possible.
func (l *landed) rest(opts *driver.GetOptions) (driver.GetOptions, bool) {
	if l.n == 0 || l.n >= len(l.mem) || l.info.Version == "" {
		return driver.GetOptions{}, false
	}
	return driver.GetOptions{
		Range:   &driver.Range{Offset: l.start + int64(l.n), Length: int64(len(l.mem) - l.n)},
		IfMatch: l.info.Version, Limit: opts.Limit,
	}, true
}

// keep notes what a try from the beginning brought before it broke.
func (l *landed) keep(opts *driver.GetOptions, data []byte, info driver.Info) {
	l.n, l.start, l.info = 0, 0, info
	if len(data) == 0 || len(data) > len(l.mem) || &data[0] != &l.mem[0] {
		return
	}
	if opts.Range != nil {
		start, n, err := opts.Range.Resolve(info.Size)
		if err != nil || n != int64(len(l.mem)) {
			return
		}
		l.start = start
	} else if info.Size != int64(len(l.mem)) {
		return
	}
	l.n = len(data)
}

func (r *retry) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	return r.get(ctx, pause{r: r, op: "get", key: key}, key, opts, &landed{alloc: alloc})
}

func (r *retry) get(ctx context.Context, p pause, key string, opts *driver.GetOptions, l *landed) ([]byte, driver.Info, error) {
	for {
		before := l.n
		data, info, err := r.try(ctx, key, opts, l)
		if err == nil {
			p.well()
			return data, info, nil
		}
		if r.resumes && l.info.Version != "" && l.n-before >= enough {
			p.tries = 0
		}
		if !p.again(ctx, &err) {
			return l.mem[:l.n], info, err
		}
	}
}

// try reads an object from its beginning, or goes on where the try before
// broke. It gives what this try brought.
func (r *retry) try(ctx context.Context, key string, opts *driver.GetOptions, l *landed) ([]byte, driver.Info, error) {
	rest, ok := l.rest(opts)
	if !ok || !r.resumes {
		data, info, err := r.Map.Get(ctx, key, opts, l.take)
		if err != nil {
			l.keep(opts, data, info)
		}
		return data, info, err
	}
	data, info, err := r.Map.Get(ctx, key, &rest, driver.Into(l.mem[l.n:]))
	switch {
	case err == nil && info.Size == l.info.Size && len(data) == len(l.mem)-l.n:
		return l.whole(opts, info)
	case err == nil:
		err = ncerr.Errorf(ncerr.ErrConflict, "", "", "%d bytes at first, %d when read on", l.info.Size, info.Size)
	case ncerr.KindOf(err) != ncerr.ErrConflict && info.Version == l.info.Version && len(data) > 0 && &data[0] == &l.mem[l.n]:
		l.n += len(data)
	}
	if ncerr.KindOf(err) == ncerr.ErrConflict || ncerr.KindOf(err) == ncerr.ErrRange {
		return r.afresh(ctx, key, opts, l)
	}
	return data, info, err
}

// whole gives an object that came in several pieces, if it fits the checksum
// that the first of them named. Otherwise the next try begins anew.
func (l *landed) whole(opts *driver.GetOptions, info driver.Info) ([]byte, driver.Info, error) {
	if l.info.CRC32C == "" || opts.Range != nil {
		return l.mem, info, nil
	}
	sum := crc32.Checksum(l.mem, crc32.MakeTable(crc32.Castagnoli))
	if base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)) == l.info.CRC32C {
		return l.mem, info, nil
	}
	l.n, l.info = 0, driver.Info{}
	e := ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the content, which came in several pieces, does not fit its checksum")
	e.Retryable = true
	return nil, info, e
}

// afresh reads an object that has changed since its first bytes came.
func (r *retry) afresh(ctx context.Context, key string, opts *driver.GetOptions, l *landed) ([]byte, driver.Info, error) {
	l.n = 0
	data, info, err := r.Map.Get(ctx, key, opts, l.take)
	if err != nil {
		l.keep(opts, data, info)
	}
	return data, info, err
}

// getMany holds back what may be repeated and does it one by one afterwards.
func (r *retry) getMany(many driver.GetManyer) getMany {
	return func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		mine := make([]driver.GetRequest, len(reqs))
		for i := range reqs {
			mine[i] = reqs[i]
			if reqs[i].Alloc != nil {
				mine[i].Alloc = (&landed{alloc: reqs[i].Alloc}).take
			}
		}
		done, held := make([]bool, len(reqs)), make([]error, len(reqs))
		failed := many.GetMany(ctx, mine, func(i int, data []byte, info driver.Info, err error) {
			if can, _ := ncerr.Retry(err); can {
				held[i] = err
				return
			}
			done[i] = true
			sink(i, data, info, err)
		})
		for i := range mine {
			if done[i] {
				continue
			}
			if err := r.late(ctx, i, mine[i], held[i], failed, sink); err != nil {
				return err
			}
		}
		return nil
	}
}

// late repeats a request of a batch that failed with err, or was not done
// because the whole batch failed. Its error is for the call as a whole.
func (r *retry) late(ctx context.Context, i int, req driver.GetRequest, err, failed error, sink driver.GetSink) error {
	cause := err
	if cause == nil {
		cause = failed
	}
	p := pause{r: r, op: "get", key: req.Key}
	switch {
	case cause == nil: // never answered: the layers above will say so
		return nil
	case p.again(ctx, &cause):
		if req.Alloc == nil {
			req.Alloc = driver.Heap
		}
		data, info, err := r.get(ctx, p, req.Key, &req.Opts, &landed{alloc: req.Alloc})
		sink(i, data, info, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		sink(i, nil, driver.Info{}, err)
	default:
		return failed
	}
	return nil
}
