package corpora_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// step performs one step of a row's setup:
//
//	config TEXT      write a configuration file for the row
//	untar FILE       unpack an archive in the row's directory
//	unzip FILE       unpack an archive in the row's directory
//	edit NEW FILE    copy a CDL file and truncate its overlong string
//	rebuild DIR FILE create a store with exactly the objects of a listing
//
// Anything else is an nczctl command that must succeed.
func (w *work) step(line string) {
	w.t.Helper()
	line = strings.ReplaceAll(line, "$C", w.root)
	verb, rest, _ := strings.Cut(line, " ")
	words := strings.Fields(rest)
	switch verb {
	case "config":
		w.config = filepath.Join(w.dir, "config.toml")
		w.write("config.toml", []byte(rest))
	case "untar":
		w.untar(words[0])
	case "unzip":
		z, err := zip.OpenReader(words[0])
		if err != nil {
			w.t.Fatal(err)
		}
		defer z.Close()
		if err := os.CopyFS(w.dir, z); err != nil {
			w.t.Fatal(err)
		}
	case "edit":
		w.write(words[0], []byte(strings.Replace(w.read(words[1]), longString, cutString, 1)))
	case "rebuild":
		w.rebuild(words[0], words[1])
	default:
		if got := w.nczctl(line); got.exit != 0 {
			w.t.Fatalf("nczctl %s: exit %d: %s", line, got.exit, got.err)
		}
	}
}

func (w *work) read(path string) string {
	w.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func (w *work) write(name string, data []byte) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, data, 0o666)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *work) untar(path string) {
	w.t.Helper()
	f, err := os.Open(path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		w.t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(r, 1<<20))
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(filepath.Join(w.dir, h.Name), 0o777)
		} else {
			w.write(h.Name, data)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// entry matches an object with its content in a listing.
var entry = regexp.MustCompile(`(?ms)^(?:\[\d+\] )?(/[^\s:]*)(?: : \(\d*\) |: )(?:\((\w+)\) )?\|(.*?)\|$`)

// rebuild creates a directory tree with exactly the objects of a listing. If a listing
// contains only names, every leaf becomes an empty object.
func (w *work) rebuild(dir, path string) {
	w.t.Helper()
	text := w.read(path)
	if strings.HasSuffix(path, "ref_blosc_zmap.txt") {
		text = w.completeBlosc(dir, text)
	}
	found := entry.FindAllStringSubmatch(text, -1)
	for _, m := range found {
		w.write(dir+m[1], w.content(m[2], m[3]))
	}
	if len(found) > 0 {
		return
	}
	names := numbered.FindAllStringSubmatch(text, -1)
	for i, m := range names {
		if m[1] != "/" && (i+1 == len(names) || !strings.HasPrefix(names[i+1][1], m[1]+"/")) {
			w.write(dir+m[1], nil)
		}
	}
	if len(names) == 0 {
		w.t.Fatalf("%s: no object in the listing", path)
	}
}

// content returns the bytes of an object: text, numbers of the given type, or the fill
// value of a big-endian int if the listing omits them.
func (w *work) content(kind, text string) []byte {
	w.t.Helper()
	switch {
	case kind == "":
		return []byte(text)
	case text == "...":
		return []byte{0x80, 0, 0, 1}
	case kind != "ubyte":
		w.t.Fatalf("numbers of type %s in a listing", kind)
	}
	var out []byte
	for word := range strings.SplitSeq(text, ", ") {
		n, err := strconv.ParseUint(word, 10, 8)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, byte(n))
	}
	return out
}

// completeBlosc completes the last document of the listing, which is truncated, and
// writes its only chunk: a blosc container with uncompressed data (flag 2).
//
// Source: c-blosc README_CHUNK_FORMAT.
func (w *work) completeBlosc(dir, text string) string {
	chunk := binary.LittleEndian.AppendUint32([]byte{2, 1, 2, 4}, 1024)
	chunk = binary.LittleEndian.AppendUint32(chunk, 1024)
	chunk = binary.LittleEndian.AppendUint32(chunk, 1024+16)
	for i := range 256 {
		chunk = binary.LittleEndian.AppendUint32(chunk, math.Float32bits(float32(i)))
	}
	w.write(dir+"/var/0.0.0.0", chunk)
	return strings.TrimRight(text, "\n") + `{"id": "blosc","cname": "lz4","clevel": 5,"shuffle": 1,"blocksize": 0},"filters": null}|` + "\n"
}
