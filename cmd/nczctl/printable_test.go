package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"plain", "a\tb\nc ~", "a\tb\nc ~"},
		{"letters", "žluťoučký 水 😀", "žluťoučký 水 😀"},
		{"joiner", "می\u200cخواهم", "می\u200cخواهم"},
		{"escape", "\x1b]0;title\x07", `\u001b]0;title\u0007`},
		{"carriage return", "good\rbad", `good\u000dbad`},
		{"C1 as a character", "\u009b31m", `\u009b31m`},
		{"C1 as a byte", "\x9b31m", `\x9b31m`},
		{"delete", "a\x7f", `a\u007f`},
		{"direction", "a\u202eb\u2066c", `a\u202eb\u2066c`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"cut off", "a\xe6\xb0", `a\xe6\xb0`},
		{"replacement character", "\ufffd", "\ufffd"},
	} {
		for _, step := range []int{len(c.in), 1, 2, 3} { // characters may be cut between writes
			var out bytes.Buffer
			p := &printable{w: &out}
			for rest := []byte(c.in); len(rest) > 0; {
				n := min(step, len(rest))
				if k, err := p.Write(rest[:n]); k != n || err != nil {
					t.Fatalf("%s: write: want %d, got %d, %v", c.name, n, k, err)
				}
				rest = rest[n:]
			}
			p.flush()
			if out.String() != c.want {
				t.Errorf("%s in steps of %d: want %q, got %q", c.name, step, c.want, out.String())
			}
		}
	}
}

func TestPrintableKeepsJSON(t *testing.T) {
	t.Parallel()
	const text = "\x1b[2J \u009b \x7f \u202e \u2028 \"quoted\" \\u0041"
	doc, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := (&printable{w: &out}).Write(doc); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != text {
		t.Errorf("%s reads as %q, %v", out.Bytes(), got, err)
	}
}

func TestPrintableReturnsErrors(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	_ = r.Close()
	if _, err := (&printable{w: w}).Write([]byte("\x1b" + strings.Repeat("x", 10))); err == nil {
		t.Error("Write did not return the error of the underlying writer")
	}
}
