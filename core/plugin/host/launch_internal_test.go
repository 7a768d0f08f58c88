package host

import (
	"context"
	"errors"
	"os"
	"testing"
)

// TestKilledBeforeStart checks that no process is started if the timeout passes while
// go-plugin prepares the start.
func TestKilledBeforeStart(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var s spawner
	defer s.close()
	l := &launch{}
	p := newProcess(&s, image{path: self, argv0: "never"}, []string{"X=1"}, nil, "")
	if err := l.adopt(p); err != nil {
		t.Fatal(err)
	}
	l.giveUp(context.Background())
	if err := p.Start(context.Background()); !errors.Is(err, os.ErrProcessDone) || p.pid() != 0 {
		t.Errorf("the process was started: pid %d, %v", p.pid(), err)
	}
	if err := l.adopt(newProcess(&s, image{path: self}, nil, nil, "")); err == nil {
		t.Error("a second process was accepted after the timeout")
	}
}
