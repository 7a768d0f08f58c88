package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// pipeGrace is how long the host reads from the output pipes after the process has
// died. Children of the process may keep the pipes open.
const pipeGrace = 300 * time.Millisecond

// image is an executable to start.
type image struct {
	path  string // path to execute, or the path of the original if file is set
	argv0 string // shown in process listings
	// launcher, if not empty, is executed first and executes this image once the
	// sandbox is in force.
	launcher string
	head     []byte   // first line of the file, possibly truncated
	static   bool     // the program is statically linked
	file     *os.File // sealed copy that is executed instead of path, or nil
}

// process is one child process. It implements go-plugin's Runner, so that the host
// controls starting, signals, process groups, pipes and reaping.
type process struct {
	spawner *spawner
	cmd     *exec.Cmd
	out     *firstLine
	errPipe *os.File
	drained chan struct{} // closed when all of standard error has been read
	life    *os.File      // write end of standard input, the lifeline
	dir     string        // private directory, in which the process may listen
	endLife sync.Once

	mu     sync.Mutex // held during the start
	killed bool       // killed before it was started
	reaped bool       // the process and group ids may have been reused

	done  chan struct{} // closed when the process is reaped
	state string        // exit status in words; valid after done
	code  int
	wg    sync.WaitGroup
}

var _ runner.Runner = (*process)(nil)

// newProcess returns a process that runs img with the environment env. The process
// inherits files as descriptors starting at 3. dir is its private directory.
func newProcess(s *spawner, img image, env []string, files []*os.File, dir string) *process {
	cmd := &exec.Cmd{Path: img.path, Args: []string{img.argv0}, Env: env, ExtraFiles: files, SysProcAttr: processAttributes()}
	if img.file != nil {
		useImageFile(cmd, img.file)
	}
	if img.launcher != "" {
		cmd.Path = img.launcher
	}
	return &process{spawner: s, cmd: cmd, dir: dir, done: make(chan struct{}), drained: make(chan struct{})}
}

// Start implements runner.Runner.
func (p *process) Start(context.Context) error {
	var childEnds, hostEnds []*os.File
	pipe := os.Pipe
	inR, inW, err := pipe()
	if err == nil {
		childEnds, hostEnds = append(childEnds, inR), append(hostEnds, inW)
		var outR, outW, errR, errW *os.File
		if outR, outW, err = pipe(); err == nil {
			childEnds, hostEnds = append(childEnds, outW), append(hostEnds, outR)
			if errR, errW, err = pipe(); err == nil {
				childEnds, hostEnds = append(childEnds, errW), append(hostEnds, errR)
				p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
				p.life, p.out, p.errPipe = inW, &firstLine{r: outR}, errR
				err = p.spawn()
			}
		}
	}
	closeAll(childEnds)
	if err != nil {
		closeAll(hostEnds)
		p.out = &firstLine{}
		p.state = "was not started"
		close(p.done)
		return err
	}
	p.wg.Go(p.reap)
	return nil
}

// spawn starts the process. It fails with os.ErrProcessDone if Kill was called before.
func (p *process) spawn() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return os.ErrProcessDone
	}
	return p.spawner.start(p.cmd)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // closing a pipe cannot lose data
	}
}

// reap waits for the process to exit and kills the rest of its group. If the platform
// permits, it kills the group before the group id can be reused. It then sets the deadline
// for reading the output pipes.
func (p *process) reap() {
	pid := p.cmd.Process.Pid
	var err error
	if awaitExit(pid) {
		p.mu.Lock()
		killGroup(pid)
		err = p.cmd.Wait()
		p.reaped = true
		p.mu.Unlock()
	} else {
		err = p.cmd.Wait()
		p.mu.Lock()
		p.reaped = true
		killGroup(pid)
		p.mu.Unlock()
	}
	p.state, p.code = fmt.Sprint(err), p.cmd.ProcessState.ExitCode()
	if st := p.cmd.ProcessState; st != nil {
		p.state = st.String() // such as "exit status 2" or "signal: killed"
	}
	close(p.done)
	p.endLifeline()
	_ = p.out.r.SetReadDeadline(time.Now().Add(pipeGrace))
	_ = p.errPipe.SetReadDeadline(time.Now().Add(pipeGrace))
}

// endLifeline closes the lifeline, so that the plugin exits.
func (p *process) endLifeline() {
	p.endLife.Do(func() {
		if p.life != nil {
			_ = p.life.Close()
		}
	})
}

// awaitDrained waits briefly until all output on standard error of the dead process has
// been read.
func (p *process) awaitDrained() {
	if p.errPipe == nil {
		return
	}
	select {
	case <-p.drained:
	case <-time.After(2 * pipeGrace):
	}
}

// closePipes closes the output pipes. It must be called after the last read.
func (p *process) closePipes() {
	p.wg.Wait()
	if p.out.r != nil {
		_ = p.out.r.Close()
		_ = p.errPipe.Close()
	}
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait implements runner.Runner.
func (p *process) Wait(context.Context) error {
	<-p.done
	return nil
}

// Kill implements runner.Runner. It kills the whole process group. It prevents the
// start of a process that has not started yet.
func (p *process) Kill(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd.Process == nil {
		p.killed = true
	}
	if p.killed || p.reaped {
		return nil
	}
	killGroup(p.cmd.Process.Pid)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (p *process) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd.Process != nil && !p.reaped {
		terminate(p.cmd.Process)
	}
}

// Stdout implements runner.Runner.
func (p *process) Stdout() io.ReadCloser { return io.NopCloser(p.out) }

// Stderr implements runner.Runner.
func (p *process) Stderr() io.ReadCloser {
	return io.NopCloser(&endNotifier{r: p.errPipe, end: p.drained})
}

// endNotifier closes end when its reader returns an error.
type endNotifier struct {
	r    io.Reader
	once sync.Once
	end  chan struct{}
}

// Read implements io.Reader.
func (t *endNotifier) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if err != nil {
		t.once.Do(func() { close(t.end) })
	}
	return n, err
}

// Name implements runner.Runner.
func (p *process) Name() string { return p.cmd.Args[0] }

// ID implements runner.Runner.
func (p *process) ID() string { return strconv.Itoa(p.pid()) }

func (p *process) pid() int {
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Diagnose implements runner.Runner. It returns "", because the host's own errors are
// more precise.
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner. It returns the address unchanged. It accepts
// only sockets in the private directory of the process and, on Windows, loopback
// addresses. Otherwise a plugin without network access could make the host send all data
// to another server.
func (p *process) PluginToHost(network, addr string) (string, string, error) {
	if own := network == "unix" && inDir(p.dir, addr); own || network == "tcp" && runtime.GOOS == "windows" && local(addr) {
		return network, addr, nil
	}
	return "", "", fmt.Errorf("the plugin serves at %q (%s), which is not a socket in its private directory", cut(addr, 120), cut(network, 20))
}

// inDir reports whether path is a socket directly in dir.
func inDir(dir, path string) bool {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&os.ModeSocket == 0 {
		return false
	}
	want, err := filepath.EvalSymlinks(dir)
	got, e := filepath.EvalSymlinks(filepath.Dir(path))
	return err == nil && e == nil && want == got
}

// HostToPlugin implements runner.Runner. It returns the address unchanged.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// handshakeMax is the maximum length of a handshake line, which may contain a
// certificate.
const handshakeMax = 8 << 10

// firstLine passes the first line of standard output to go-plugin, keeps a copy of its
// start for errors, and discards all further output.
type firstLine struct {
	r    *os.File
	mu   sync.Mutex
	head []byte
	n    int
	done bool
}

// Read implements io.Reader.
func (f *firstLine) Read(p []byte) (int, error) {
	if f.r == nil {
		return 0, io.EOF
	}
	for {
		n, err := f.r.Read(p)
		f.mu.Lock()
		keep := f.take(p[:n])
		f.mu.Unlock()
		if keep > 0 || err != nil {
			return keep, err
		}
	}
}

// take returns the number of bytes of p that belong to the first line, and records the
// start of the line. It truncates a line that is longer than handshakeMax.
func (f *firstLine) take(p []byte) int {
	if f.done {
		return 0
	}
	keep := len(p)
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		keep, f.done = i+1, true
	}
	if f.n += keep; f.n > handshakeMax && !f.done {
		f.done = true
		p[keep-1] = '\n'
	}
	f.head = append(f.head, p[:min(keep, max(0, 512-len(f.head)))]...)
	return keep
}

// text returns the first line, truncated to 512 bytes.
func (f *firstLine) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	line, _, _ := bytes.Cut(f.head, []byte("\n"))
	return string(bytes.TrimSpace(line))
}

// certified reports whether the first line contains a certificate. A plugin that sends
// no certificate serves without TLS, because some languages cannot create the
// certificate.
func (f *firstLine) certified() bool {
	parts := strings.Split(f.text(), "|")
	return len(parts) > 5 && parts[5] != ""
}
