package docs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
)

// shell matches a block of commands that must work as printed. The words after
// sh name the programs that it needs besides nczctl and standard tools.
var shell = regexp.MustCompile("(?ms)^ *```sh([a-z ]*)\n(.*?)```")

// thorough matches the start of the commands that check a plugin with the default effort,
// which is thorough.
var thorough = regexp.MustCompile(`(?m)^nczctl conformance run (--plugin|--run) `)

// shown lists the pages whose commands are run, with lines of text that their output must
// contain, and lines that it must also contain if NCZARR_FULL is set.
var shown = []struct{ page, output, full string }{
	{"README.md", "chunks [2 3], raw", ""},
	{"docs/tutorial/first-dataset.md", "exit code 13", ""},
	{"docs/tutorial/1-open.md", "", ""},
	{"docs/tutorial/2-write.md", "", ""},
	{"docs/tutorial/3-filter-plugin.md", "exit code 15\n passed, 0 failed", "conforms (level reached: "},
	{"docs/howto/write-a-filter.md", "bitrev", ""},
	{"docs/howto/write-a-storage-driver.md", "nczarr-driver-onefile", ""},
	{"docs/howto/run-conformance.md", "passed in part\nconforms (level reached: ", ""},
	{"docs/howto/debug-a-plugin.md", "exit code 64", ""},
	{"docs/howto/from-netcdf-tools.md", "netCDF-4", ""},
	{"docs/howto/http.md", "https://data.example/ocean.zarr", ""},
	{"docs/howto/s3.md", "/temp/.zarray", ""},
}

// TestCommands runs the commands of the README, the tutorials and the howtos as
// printed, one page after the other, in one directory that is initially empty. Thorough
// conformance runs of plugins, which take half of the time, are brief unless NCZARR_FULL
// is set.
func TestCommands(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no POSIX shell")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	settings := filepath.Join(dir, ".none", "nczarr") // plugins may start slowly on a busy machine
	if err := errors.Join(os.MkdirAll(settings, 0o777), os.WriteFile(filepath.Join(settings, "config.toml"), []byte("[plugins]\nstart_timeout = \"5m\"\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "go", "install", "-ldflags=-s -w", "./cmd/nczctl") // the command in the README, without debug tables, which take long to link
	install.Dir, install.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+bin)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install nczctl: %v\n%s", err, out)
	}
	env := append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "NCZARR="+root,
		"XDG_CONFIG_HOME="+dir+"/.none", "XDG_DATA_HOME="+dir+"/.none", "NCZARR_CONFIG=", "NCZARR_PLUGIN_PATH=")
	full := os.Getenv("NCZARR_FULL") == "1"
	for _, s := range shown { //nolint:paralleltest // the pages run in order and use files from earlier pages
		t.Run(s.page, func(t *testing.T) {
			env := append(env[:len(env):len(env)], serverOf(t, s.page, dir)...)
			text, err := os.ReadFile(filepath.Join(root, s.page))
			if err != nil {
				t.Fatal(err)
			}
			printed, all := "", ""
			for _, block := range shell.FindAllStringSubmatch(string(text), -1) {
				if !installed(block[1]) {
					t.Logf("skipped, because not all of%s are installed:\n%s", block[1], block[2])
					continue
				}
				script := block[2]
				if !full {
					script = thorough.ReplaceAllString(script, "nczctl conformance run --effort brief $1 ")
				}
				all += script
				cmd := exec.CommandContext(t.Context(), sh, "-e", "-c", script)
				cmd.Dir, cmd.Env = dir, env
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s\n%s", err, script, out)
				}
				printed += string(out)
			}
			want := s.output
			if full {
				want += "\n" + s.full
			}
			for output := range strings.SplitSeq(want, "\n") {
				if all == "" || !strings.Contains(printed, output) {
					t.Errorf("want %q in the output of:\n%s\ngot:\n%s", output, all, printed)
				}
			}
		})
	}
}

// installed reports whether all the named programs are in PATH.
func installed(programs string) bool {
	for _, name := range strings.Fields(programs) {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

// serverOf starts the server that a page needs, if any, and returns environment
// variables for its commands. A web server serves the files of dir.
func serverOf(t *testing.T, page, dir string) []string {
	t.Helper()
	switch page {
	case "docs/howto/http.md":
		return dataExample(t, dir)
	case "docs/howto/s3.md":
		s := s3server.Start(t)
		if err := s.MakeBucket(t.Context(), "bucket"); err != nil {
			t.Fatal(err)
		}
		return s.Env()
	}
	return nil
}

// dataExample serves the files of dir as https://data.example, and returns the
// environment variables that make commands connect to it through a proxy.
func dataExample(t *testing.T, dir string) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"data.example"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := filepath.Join(t.TempDir(), "data.example.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o666); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(http.FileServer(http.Dir(dir)))
	web.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	web.StartTLS()
	t.Cleanup(web.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "data.example:443" {
			http.Error(w, "this proxy only serves data.example", http.StatusForbidden)
			return
		}
		upstream, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer upstream.Close() // the response has been forwarded
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close() // the response has been forwarded
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(upstream, buffered) }()
		_, _ = io.Copy(client, upstream)
	}))
	t.Cleanup(proxy.Close)
	return []string{"HTTPS_PROXY=" + proxy.URL, "https_proxy=" + proxy.URL, "NO_PROXY=", "no_proxy=", "SSL_CERT_FILE=" + trusted}
}
