//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
)

// side is the length of both sides of a chunk, which has 4 MiB of float32.
const side = 1024

// runChild performs one measurement and prints its result.
func runChild(ctx context.Context, spec string) error {
	op, rest, _ := strings.Cut(spec, ":")
	who, conf, _ := strings.Cut(rest, ":")
	var s settings
	if err := json.Unmarshal([]byte(conf), &s); err != nil {
		return err
	}
	array := make([]float32, s.MiB<<18)
	if op == "write" {
		for i := range array {
			array[i] = float32(i%1000003) * 0.5
		}
	} else {
		clear(array[:1]) // touches only the first page, because the measured read touches the others
	}
	work := map[string]func(context.Context, settings, []float32) error{
		"write:nczarr": writeNczarr, "read:nczarr": readNczarr, "write:plain": writePlain, "read:plain": readPlain,
	}[op+":"+who]
	if work == nil {
		return errors.New("unknown measurement")
	}
	start, before := time.Now(), cpu()
	if err := work(ctx, s, array); err != nil {
		return err
	}
	r := result{Seconds: time.Since(start).Seconds(), CPU: (cpu() - before).Seconds()}
	if op == "read" {
		sum := sha256.Sum256(raw(array))
		r.Sum = hex.EncodeToString(sum[:])
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
		r.Peak = usage.Maxrss << 10
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// cpu returns the CPU time of the process so far.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// raw returns the bytes of the array.
func raw(array []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(array))), len(array)*4)
}

// name returns the name of the dataset that nczarr writes and every program reads.
func (s settings) name() string { return fmt.Sprintf("ours%d.zarr", s.Turn) }

func (s settings) url() string {
	return s.Endpoint + "/" + s.Bucket + "/" + s.name() + "#mode=zarr,s3&aws.region=" + s.Region
}

func options() dataset.Options {
	return dataset.Options{Registry: registry.New(builtin.New()), SingleWriter: true}
}

func writeNczarr(ctx context.Context, s settings, array []float32) error {
	ds, err := open.Create(ctx, s.url(), &dataset.CreateOptions{Options: options(), Consolidated: true})
	if err != nil {
		return err
	}
	var dims []*dataset.Dim
	for i, n := range []int64{s.MiB / 4, side, side} {
		d, err := ds.Root().DefineDim(string(rune('z'-i)), n, false)
		if err != nil {
			return err
		}
		dims = append(dims, d)
	}
	v, err := ds.Root().DefineVar(ctx, "data", &dataset.VarSpec{Type: dtype.NCFloat, Dims: dims, Chunks: []int64{1, side, side}})
	if err != nil {
		return err
	}
	if err := v.Write(ctx, v.All(), array); err != nil {
		return err
	}
	return ds.Close(ctx)
}

func readNczarr(ctx context.Context, s settings, array []float32) error {
	o := options()
	ds, err := open.Open(ctx, s.url(), &o)
	if err != nil {
		return err
	}
	v, err := ds.Root().Var("data")
	if err != nil {
		return err
	}
	if err := v.Read(ctx, v.All(), array); err != nil {
		return err
	}
	return ds.Close(ctx)
}

// plain returns the client of the AWS SDK with its default settings, except for the
// number of idle connections and the checksums.
func plain(ctx context.Context, s settings) (*s3.Client, error) {
	conf, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(s.Region),
		awsconfig.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 2 * s.Flying })))
	if err != nil {
		return nil, err
	}
	return s3.NewFromConfig(conf, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = &s.Endpoint, true
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}), nil
}

// each calls f for every chunk's bytes, with s.Flying calls at a time.
func (s settings) each(array []float32, f func(i int, chunk []byte) error) error {
	all := raw(array)
	n := int(s.MiB / 4)
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, s.Flying)
	for w := range s.Flying {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = f(i, all[i*4<<20:(i+1)*4<<20])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// readPlain reads the same objects as the other programs: the consolidated metadata,
// and then the chunks.
func readPlain(ctx context.Context, s settings, array []float32) error {
	c, err := plain(ctx, s)
	if err != nil {
		return err
	}
	get := func(key string, read func(io.Reader) error) error {
		key = s.name() + "/" + key
		out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.Bucket, Key: &key})
		if err != nil {
			return err
		}
		return errors.Join(read(out.Body), out.Body.Close())
	}
	err = get(".zmetadata", func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	if err != nil {
		return err
	}
	return s.each(array, func(i int, chunk []byte) error {
		return get(fmt.Sprintf("data/%d.0.0", i), func(r io.Reader) error {
			_, err := io.ReadFull(r, chunk)
			return err
		})
	})
}

func writePlain(ctx context.Context, s settings, array []float32) error {
	c, err := plain(ctx, s)
	if err != nil {
		return err
	}
	return s.each(array, func(i int, chunk []byte) error {
		key := fmt.Sprintf("plain%d/%d.0.0", s.Turn, i)
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: bytes.NewReader(chunk)})
		return err
	})
}
