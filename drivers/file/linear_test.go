package file_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// step is a call on one key, or its outcome. An empty content means that the object
// does not exist.
type step struct {
	op      byte   // 'g' get, 'p' put, 'n' put if absent, 'd' delete
	content string // content that was put or read
	refused bool   // whether a put if absent found an object
}

// register models the content of one key.
var register = porcupine.Model{ // never changed
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(step), output.(step)
		switch in.op {
		case 'g':
			return out.content == state, state
		case 'p':
			return true, in.content
		case 'd':
			return true, ""
		}
		if out.refused {
			return state != "", state
		}
		return state == "", in.content
	},
}

// TestLinearizable records concurrent calls of several goroutines on one key, and
// checks that a sequential order of the calls explains the results.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]driver.Map{
		"file":   open(t, filepath.Join(t.TempDir(), "store"), driver.Create),
		"memory": memmap.New(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := record(t, m)
			if !porcupine.CheckOperations(register, history) {
				t.Errorf("no sequential order of %d calls explains the results", len(history))
			}
			broken := append(history[:len(history):len(history)], porcupine.Operation{
				ClientId: 9, Input: step{op: 'g'}, Output: step{content: "never stored"}, Call: 1 << 60, Return: 1<<60 + 1,
			})
			if porcupine.CheckOperations(register, broken) {
				t.Error("the check accepted a value that was never stored")
			}
		})
	}
}

func record(t *testing.T, m driver.Map) []porcupine.Operation {
	t.Helper()
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	var now atomic.Int64 // a clock that returns unique times
	for client := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(client)))
			for i := range 60 {
				in := step{op: "ggppnd"[rng.IntN(6)], content: fmt.Sprintf("%d.%d", client, i)}
				call := now.Add(1)
				out, err := perform(t, m, in)
				end := now.Add(1)
				if err != nil {
					t.Errorf("%c: %v", in.op, err)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history
}

func perform(t *testing.T, m driver.Map, in step) (out step, err error) {
	t.Helper()
	switch in.op {
	case 'g':
		out.content, err = get(t, m, "dir/k")
		if ncerr.KindOf(err) == ncerr.ErrNotFound {
			return step{}, nil
		}
	case 'd':
		err = m.Delete(t.Context(), "dir/k", &driver.DeleteOptions{})
	default:
		_, err = m.Put(t.Context(), "dir/k", driver.Bytes(in.content), &driver.PutOptions{IfAbsent: in.op == 'n'})
		if in.op == 'n' && ncerr.KindOf(err) == ncerr.ErrObjectExists {
			return step{refused: true}, nil
		}
	}
	return out, err
}
