package zip_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
)

// killEnv makes the test binary a writer that never stops.
const killEnv = "NCZARR_TEST_ZIP_WRITER"

const killObjects = 20

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(killEnv) != "":
		writeForever(os.Getenv(killEnv))
	case os.Getenv(fullEnv) != "":
		writeTooMuch(os.Getenv(fullEnv))
	default:
		os.Exit(m.Run())
	}
}

// generation is the content of object i in a generation.
func generation(n string, i int) string { return strings.Repeat(n+" ", 3000+100*i) }

// writeForever writes generation after generation, each with one flush, and
// says so.
func writeForever(path string) {
	ctx := context.Background()
	m, err := zipdriver.New().Open(ctx, driver.OpenSpec{Path: path, Mode: driver.Update})
	for n := 1; err == nil; n++ {
		for i := 0; i < killObjects && err == nil; i++ {
			_, err = m.Put(ctx, fmt.Sprint("v/", i), driver.Bytes(generation(fmt.Sprint(n), i)), &driver.PutOptions{})
		}
		if err == nil {
			err = m.Flush(ctx)
		}
		fmt.Println("flushed")
	}
	fmt.Println("error", err)
	os.Exit(1)
}

// TestKilledWriter kills a process that writes, again and again: the archive
// has one whole generation every time, and never an older one than before.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zip")
	m := opened(t, path, driver.Create, "")
	for i := range killObjects {
		put(t, m, fmt.Sprint("v/", i), generation("0", i))
	}
	flush(t, m)
	seen := map[string]bool{}
	for round := range 12 {
		killWriter(t, path, time.Duration(round)*1700*time.Microsecond)
		all := content(t, opened(t, path, driver.Read, ""))
		n, _, _ := strings.Cut(all["v/0"], " ")
		seen[n] = true
		for i := range killObjects {
			if all[fmt.Sprint("v/", i)] != generation(n, i) {
				t.Fatalf("round %d: object %d is not of generation %s", round, i, n)
			}
		}
		if len(all) != killObjects {
			t.Fatalf("round %d: %d objects", round, len(all))
		}
		if len(stdContent(t, path)) != killObjects {
			t.Fatal("the standard library disagrees")
		}
	}
	t.Logf("generations found: %v", seen)
}

// killWriter starts a writer and kills it a while after its first flush.
func killWriter(t *testing.T, path string, after time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "flushed\n" {
		t.Errorf("the writer says %q, %v", line, err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
}
