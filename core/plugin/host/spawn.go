package host

import (
	"os/exec"
	"runtime"
	"sync"
)

// spawner starts all child processes from one operating system thread that lives as
// long as the host. The parent-death signal of a child is tied to the thread that
// started it, and the Go runtime may end other threads at any time.
type spawner struct {
	once sync.Once
	end  sync.Once
	reqs chan spawnRequest
	wg   sync.WaitGroup
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

// start runs cmd.Start on the thread. The first call creates the thread.
func (s *spawner) start(cmd *exec.Cmd) error {
	s.once.Do(func() {
		s.reqs = make(chan spawnRequest)
		s.wg.Go(s.loop)
	})
	r := spawnRequest{cmd, make(chan error, 1)}
	s.reqs <- r
	return <-r.done
}

func (s *spawner) loop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for r := range s.reqs {
		r.done <- r.cmd.Start()
	}
}

// close ends the thread. No call of start may be in progress, and all children must be
// dead, because the kernel kills them when the thread ends.
func (s *spawner) close() {
	s.once.Do(func() {})
	s.end.Do(func() {
		if s.reqs != nil {
			close(s.reqs)
		}
	})
	s.wg.Wait()
}
