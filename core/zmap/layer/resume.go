package layer

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// minProgress is the minimum number of bytes that an attempt must deliver to be excluded
// from RetryOptions.Attempts.
const minProgress = 64 << 10

// partialRead holds the bytes of an object that have been read so far, in one or more
// attempts.
type partialRead struct {
	alloc     driver.Alloc
	allocated bool // alloc has succeeded
	mem       []byte
	n         int         // number of valid bytes in mem
	start     int64       // position of mem in the object
	info      driver.Info // the object from which the valid bytes were read
}

// take is an Alloc that returns the same memory to every attempt.
func (l *partialRead) take(n int64) ([]byte, error) {
	if l.allocated {
		if n != int64(len(l.mem)) {
			return nil, ncerr.Errorf(ncerr.ErrConflict, "", "", "the size changed from %d to %d bytes between attempts", len(l.mem), n)
		}
		return l.mem, nil
	}
	p, err := l.alloc(n)
	if err == nil {
		l.mem, l.allocated = p, true
	}
	return p, err
}

// rest returns the options of a Get of the remaining bytes. ok is false if the read
// cannot be resumed.
func (l *partialRead) rest(opts *driver.GetOptions) (driver.GetOptions, bool) {
	if l.n == 0 || l.n >= len(l.mem) || l.info.Version == "" {
		return driver.GetOptions{}, false
	}
	return driver.GetOptions{
		Range:   &driver.Range{Offset: l.start + int64(l.n), Length: int64(len(l.mem) - l.n)},
		IfMatch: l.info.Version, Limit: opts.Limit,
	}, true
}

// keep records the bytes that a failed read from the beginning has delivered.
func (l *partialRead) keep(opts *driver.GetOptions, data []byte, info driver.Info) {
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
	return r.get(ctx, callState{r: r, op: "get", key: key}, key, opts, &partialRead{alloc: alloc})
}

func (r *retry) get(ctx context.Context, p callState, key string, opts *driver.GetOptions, l *partialRead) ([]byte, driver.Info, error) {
	for {
		before := l.n
		data, info, err := r.try(ctx, key, opts, l)
		if err == nil {
			p.succeeded()
			return data, info, nil
		}
		if r.resumes && l.info.Version != "" && l.n-before >= minProgress {
			p.tries = 0
		}
		if !p.waitRetry(ctx, &err) {
			return l.mem[:l.n], info, err
		}
	}
}

// try makes one attempt and returns its result. It resumes the previous attempt, or reads
// the object from its beginning if the previous attempt cannot be resumed or the object
// has changed.
func (r *retry) try(ctx context.Context, key string, opts *driver.GetOptions, l *partialRead) ([]byte, driver.Info, error) {
	if rest, ok := l.rest(opts); ok && r.resumes {
		data, info, err := r.Map.Get(ctx, key, &rest, driver.Into(l.mem[l.n:]))
		switch {
		case err == nil && info.Size == l.info.Size && len(data) == len(l.mem)-l.n:
			return l.verifyWhole(opts, info)
		case err == nil:
			err = ncerr.Errorf(ncerr.ErrConflict, "", "", "the size changed from %d to %d bytes between attempts", l.info.Size, info.Size)
		case ncerr.KindOf(err) != ncerr.ErrConflict && info.Version == l.info.Version && len(data) > 0 && &data[0] == &l.mem[l.n]:
			l.n += len(data)
		}
		if ncerr.KindOf(err) != ncerr.ErrConflict && ncerr.KindOf(err) != ncerr.ErrRange {
			return data, info, err
		}
		l.n = 0 // the object has changed since its first bytes were read
	}
	data, info, err := r.Map.Get(ctx, key, opts, l.take)
	if err != nil {
		l.keep(opts, data, info)
	}
	return data, info, err
}

// verifyWhole returns an object that was read in several parts if it matches the
// checksum received with the first part. Otherwise the next attempt starts again.
func (l *partialRead) verifyWhole(opts *driver.GetOptions, info driver.Info) ([]byte, driver.Info, error) {
	if l.info.CRC32C == "" || opts.Range != nil {
		return l.mem, info, nil
	}
	sum := crc32.Checksum(l.mem, crc32.MakeTable(crc32.Castagnoli))
	if base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)) == l.info.CRC32C {
		return l.mem, info, nil
	}
	l.n, l.info = 0, driver.Info{}
	e := ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the content that was read in several parts does not match its checksum")
	e.Retryable = true
	return nil, info, e
}

// getMany returns a GetMany function that passes the results of many to sink, except
// retryable failures. It retries the failed requests one by one.
func (r *retry) getMany(many driver.GetManyer) getMany {
	return func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
		mine := make([]driver.GetRequest, len(reqs))
		for i := range reqs {
			mine[i] = reqs[i]
			if reqs[i].Alloc != nil {
				mine[i].Alloc = (&partialRead{alloc: reqs[i].Alloc}).take
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
			if err := r.retryOne(ctx, i, mine[i], held[i], failed, sink); err != nil {
				return err
			}
		}
		return nil
	}
}

// retryOne retries a request that failed with err. If err is nil, the request was not
// performed, because the whole batch failed with the error failed. retryOne returns an
// error if the whole call must fail.
func (r *retry) retryOne(ctx context.Context, i int, req driver.GetRequest, err, failed error, sink driver.GetSink) error {
	cause := err
	if cause == nil {
		cause = failed
	}
	p := callState{r: r, op: "get", key: req.Key}
	switch {
	case cause == nil: // the request has no result; the layers above report the violation
		return nil
	case p.waitRetry(ctx, &cause):
		if req.Alloc == nil {
			req.Alloc = driver.Heap
		}
		data, info, err := r.get(ctx, p, req.Key, &req.Opts, &partialRead{alloc: req.Alloc})
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
