package host

import (
	"os/exec"
	"runtime"
	"sync"
)

// spawner starts all child processes from one operating system thread which
// lives as long as the host: the parent-death signal of a child belongs to the
// thread that started it, and Go ends threads when it likes.
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

// start runs cmd.Start on the thread, which it makes at the first call.
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

// close ends the thread. No start is under way, and all children are dead.
func (s *spawner) close() {
	s.once.Do(func() {})
	s.end.Do(func() {
		if s.reqs != nil {
			close(s.reqs)
		}
	})
	s.wg.Wait()
}
