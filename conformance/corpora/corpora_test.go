package corpora_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nczctl is the path of the program under test, which is built once.
var nczctl string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "corpora")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	nczctl = filepath.Join(dir, "nczctl")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", nczctl, "../../cmd/nczctl").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build nczctl: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// corpora returns the folder with the files of other implementations.
func corpora(t *testing.T) string {
	t.Helper()
	root := os.Getenv("NCZARR_CORPORA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "corpora")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nczarr", "zarr-v2", "zarr-v3"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Skipf("corpus %s is missing: set NCZARR_CORPORA", name)
		}
	}
	return root
}

func table() []row { return slices.Concat(rows, arrays(), arraysV3()) }

// TestListed checks that the table lists every file of the corpora, and that every
// listed file exists.
func TestListed(t *testing.T) {
	t.Parallel()
	root := corpora(t)
	listed := map[string]bool{}
	for _, r := range table() {
		for _, name := range r.files {
			listed[name] = true
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("the table lists %s: %v", name, err)
			}
		}
	}
	for _, folder := range []string{"nczarr", "zarr-v2", "zarr-v3"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(root, p)
			for at := filepath.ToSlash(rel); at != "."; at = filepath.ToSlash(filepath.Dir(at)) {
				if listed[at] {
					return err
				}
			}
			t.Errorf("%s is not in the table", rel)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTable runs every row in process and out of process. Both must produce the same
// output and exit code.
func TestTable(t *testing.T) {
	t.Parallel()
	root := corpora(t)
	for i, r := range table() {
		t.Run(fmt.Sprintf("%d/%s", i, filepath.Base(r.files[0])), func(t *testing.T) {
			t.Parallel()
			var results []result
			for _, isolation := range []string{"inproc", "process"} {
				w := &work{t: t, root: root, dir: t.TempDir(), isolation: isolation, row: r}
				for _, line := range r.setup {
					w.step(line)
				}
				got := w.nczctl(r.run)
				r.check(t, root, got)
				results = append(results, got)
			}
			if a, b := results[0], results[1]; a.exit != b.exit || !bytes.Equal(a.out, b.out) {
				t.Errorf("%s: in process: exit %d and %q, out of process: exit %d and %q", r.run, a.exit, a.out, b.exit, b.out)
			}
		})
	}
}

type result struct {
	out, err []byte
	exit     int
}

// check compares the result of a command with the expectations of the row.
func (r *row) check(t *testing.T, root string, got result) {
	t.Helper()
	if got.exit != r.exit {
		t.Errorf("nczctl %s: want exit %d, got %d: %s", r.run, r.exit, got.exit, got.err)
	}
	if !strings.Contains(string(got.err), r.says) {
		t.Errorf("nczctl %s: want a message with %q, got %q", r.run, r.says, got.err)
	}
	out := r.reduce(string(got.out))
	for _, part := range r.has {
		if !strings.Contains(out, part) {
			t.Errorf("nczctl %s: want %q in\n%s", r.run, part, out)
		}
	}
	want := r.text
	if r.same != "" {
		want = r.reference(t, filepath.Join(root, r.same))
	}
	if len(r.has) == 0 && out != want {
		t.Errorf("nczctl %s: want\n%s\ngot\n%s", r.run, want, out)
	}
}

var (
	numbered = regexp.MustCompile(`(?m)^\[\d+\] (/\S*)$`)
	lengths  = regexp.MustCompile(`(?m)^(\[\d+\] \S+) : \(\d*\)`)
	chunks   = regexp.MustCompile(`(?m) \(\w+\) \|.*\|$`)
	ours     = regexp.MustCompile(`"_NCProperties": "version=[^"]*", `)
)

// reduce removes the parts of the output that the reference does not contain.
func (r *row) reduce(out string) string {
	if r.mask {
		out = ours.ReplaceAllString(masked(out), "")
	}
	if len(r.drop) == 0 {
		return out
	}
	var kept strings.Builder
	for line := range strings.Lines(out) {
		if !slices.ContainsFunc(r.drop, func(part string) bool { return strings.Contains(line, part) }) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func masked(listing string) string {
	return chunks.ReplaceAllString(lengths.ReplaceAllString(listing, "$1 : ()"), " (...)")
}

// reference returns the expected output according to a reference file.
func (r *row) reference(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if numbered.MatchString(text) && !strings.Contains(text, "|") { // names found by a search; nczctl omits the root
		text = strings.TrimPrefix(numbered.ReplaceAllString(text, "$1"), "/\n")
	}
	if r.mask {
		text = masked(text)
	}
	for i := 0; i+1 < len(r.edits); i += 2 {
		if !strings.Contains(text, r.edits[i]) {
			t.Errorf("%s: nothing to edit: %q", path, r.edits[i])
		}
		text = strings.Replace(text, r.edits[i], r.edits[i+1], 1)
	}
	return text
}

// work runs one row with one isolation mode, in its own directory.
type work struct {
	t                    *testing.T
	root, dir, isolation string
	row                  row
	config               string
}

// nczctl runs the program with the arguments in words.
func (w *work) nczctl(words string) result {
	w.t.Helper()
	args := append([]string{"--isolation=" + w.isolation}, strings.Fields(strings.ReplaceAll(words, "$C", w.root))...)
	cmd := exec.CommandContext(w.t.Context(), nczctl, args...)
	var out, msg bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, &out, &msg
	cmd.Env = append(os.Environ(), "NCZARR_CONFIG="+w.config)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return result{out.Bytes(), msg.Bytes(), cmd.ProcessState.ExitCode()}
}
