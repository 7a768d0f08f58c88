package s3server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// VirtualDomain is the domain for virtual-host requests to the server: BUCKET.s3.test.
// The domain does not resolve: see [Server.Proxy].
const VirtualDomain = "s3.test"

// requireVar is an environment variable. If it is 1, tests fail instead of being skipped when
// the server cannot be built.
const requireVar = "NCZARR_REQUIRE_PEERS"

// binaryVar is the environment variable for the path of an existing versitygw.
const binaryVar = "NCZARR_VERSITYGW"

// Server is a running server. Its fields are constant.
type Server struct {
	Endpoint  string // http://127.0.0.1:PORT
	Region    string // only region that the server accepts
	AccessKey string
	SecretKey string
	Bucket    string // bucket that exists and is empty at the start
	Root      string // directory that contains the buckets as directories
	PID       int
}

// T is the part of *testing.T that Start needs.
type T interface {
	Helper()
	TempDir() string
	Cleanup(f func())
	Context() context.Context
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Start starts a server with one bucket, which stops when the test ends. If the server
// cannot be built, Start skips the test, or fails it if NCZARR_REQUIRE_PEERS is 1; it
// returns nil if t.Skipf returns. Every test may start its own server, which takes
// about 0.2 s.
func Start(t T) *Server {
	t.Helper()
	binary, err := Binary(t.Context())
	if err != nil {
		if os.Getenv(requireVar) == "1" {
			t.Fatalf("S3 server for tests: %v", err)
		}
		t.Skipf("S3 server for tests: %v", err)
		return nil
	}
	s, stop, err := Run(t.Context(), binary)
	if err != nil {
		t.Fatalf("S3 server for tests: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Logf("S3 server for tests: %v", err)
		}
	})
	return s
}

var binary = sync.OnceValues(func() (string, error) {
	if name := os.Getenv(binaryVar); name != "" {
		return name, nil
	}
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command("sh", filepath.Join(filepath.Dir(here), "install.sh"))
	var msg bytes.Buffer
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("install.sh: %w: %s", err, msg.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
})

// Binary returns the path of the server. It builds the server if needed, which takes a
// minute or more, unless NCZARR_VERSITYGW is the path of an existing one.
func Binary(context.Context) (string, error) { return binary() }

// Run starts a server that keeps its data in a temporary directory, and creates a
// bucket. The caller must call stop, which ends the server and removes the directory.
// If the system supports it, the server ends with this process.
func Run(ctx context.Context, binary string) (s *Server, stop func() error, err error) {
	dir, err := os.MkdirTemp(memoryDir(), "nczarr-s3server-")
	if err != nil {
		return nil, nil, err
	}
	for range 3 { // another program, even another such server, may take the port first
		srv, end, runErr := run(ctx, binary, dir)
		if err = runErr; err == nil {
			return srv, func() error { return errors.Join(end(), os.RemoveAll(dir)) }, nil
		}
	}
	return nil, nil, errors.Join(err, os.RemoveAll(dir))
}

func run(ctx context.Context, binary, dir string) (*Server, func() error, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, nil, err
	}
	s := &Server{
		Endpoint: "http://" + address, Region: "us-east-1", Bucket: "test-bucket",
		AccessKey: "test-access", SecretKey: "test-secret-key", Root: filepath.Join(dir, "data"),
	}
	iam := filepath.Join(dir, "iam")
	if err := errors.Join(os.MkdirAll(s.Root, 0o777), os.MkdirAll(iam, 0o777)); err != nil {
		return nil, nil, err
	}
	// By default versitygw closes the connection after each response, unlike other S3
	// servers; a new connection for each request took a quarter of the time of the tests.
	cmd := exec.Command(binary, "--keep-alive", "--port", address, "--region", s.Region, "--virtual-domain", VirtualDomain,
		"--health", "/health", "--iam-dir", iam, "--quiet", "posix", s.Root)
	cmd.Dir = dir
	// The server keeps little memory, so collecting garbage less often costs little.
	cmd.Env = []string{"GOGC=400", "PATH=" + os.Getenv("PATH"), "ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey}
	cmd.SysProcAttr = withParent()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ended, err := start(cmd)
	if err != nil {
		return nil, nil, err
	}
	s.PID = cmd.Process.Pid
	if err = s.ready(ctx, ended); err == nil {
		err = s.createBucket(ctx)
	}
	if err != nil {
		_ = cmd.Process.Kill() // the process may have ended already
		return nil, nil, fmt.Errorf("%w: %s", errors.Join(err, <-ended), out.Bytes())
	}
	return s, func() error { return end(cmd.Process, ended) }, nil
}

// start starts the server. The channel ended receives the error returned when the server
// ends, and is then closed. The server ends with the thread that started it (see
// withParent), so start dedicates a thread to waiting for it. Other threads may end
// while tests run, for example when a goroutine that is locked to its thread ends.
func start(cmd *exec.Cmd) (ended chan error, err error) {
	started := make(chan error)
	ended = make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
			close(ended)
		}
	}()
	return ended, <-started
}

// createBucket creates the bucket and checks that it exists in this server's directory:
// the server of another test may have taken the port and responded.
func (s *Server) createBucket(ctx context.Context) error {
	if err := s.MakeBucket(ctx, s.Bucket); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(s.Root, s.Bucket))
	return err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ready waits until the server responds.
func (s *Server) ready(ctx context.Context, ended chan error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/health", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the server ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// end asks the server to stop, and kills it if it does not.
func end(p *os.Process, ended chan error) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		_ = p.Kill() // Kill works on systems without SIGTERM
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(5 * time.Minute):
		return errors.Join(errors.New("the server did not stop and was killed"), p.Kill(), <-ended)
	}
}

// Client returns a plain client of the server, independent of the driver under test.
func (s *Server) Client() *s3.Client {
	return s3.New(s3.Options{
		Region: s.Region, BaseEndpoint: aws.String(s.Endpoint), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
	})
}

// MakeBucket creates another bucket.
func (s *Server) MakeBucket(ctx context.Context, name string) error {
	_, err := s.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name})
	return err
}

// Env returns environment variables (NAME=VALUE) that direct every S3 program to the
// server and disable the user's settings.
func (s *Server) Env() []string {
	none := filepath.Join(s.Root, "..", "none")
	return []string{
		"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey, "AWS_REGION=" + s.Region,
		"AWS_ENDPOINT_URL=" + s.Endpoint, "AWS_EC2_METADATA_DISABLED=true", "AWS_PROFILE=", "AWS_SESSION_TOKEN=",
		"AWS_CONFIG_FILE=" + none, "AWS_SHARED_CREDENTIALS_FILE=" + none,
	}
}

// URL returns the URL of a dataset in the server's bucket. key is its key there, and
// mode is the value of the fragment key mode, such as "nczarr,s3".
func (s *Server) URL(key, mode string) string {
	return s.Endpoint + "/" + s.Bucket + "/" + key + "#mode=" + mode
}
