package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peerResult is the output of conformance/interop/peers/bench.py.
type peerResult struct {
	Seconds []float64 `json:"seconds"`
	Stored  int64     `json:"stored_bytes"`
	Peak    float64   `json:"peak_rss_mib"`
	Sum     string    `json:"sha256"`
}

// peersOf measures how the peers read the same store or write a similar one. It omits
// tensorstore for HDF5-style filters, which tensorstore does not support in Zarr v2, and
// for zip archives, which tensorstore cannot write.
func (s *settings) peersOf(r *row, storage string, c codecSet, op string) error {
	if s.peers == "" {
		return nil
	}
	got, err := s.peer("zarr", storage, c, op)
	if err != nil {
		return err
	}
	r.zarr = append(r.zarr, got)
	if strings.Contains(c.name, "shuffle+") || storage == "zip" {
		return nil
	}
	if got, err = s.peer("tensorstore", storage, c, op); err != nil {
		return err
	}
	r.tensorstore = append(r.tensorstore, got)
	return nil
}

func (s *settings) peer(name, storage string, c codecSet, op string) (result, error) {
	python := filepath.Join(s.peers, "venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		return result{}, fmt.Errorf("the peers are not installed: %w", err)
	}
	args := []string{"-B", "conformance/interop/peers/bench.py", op, "--with", name, "--storage", storage, "--array", "data", "--runs", "1"}
	store := s.store(storage, c)
	target := store
	if op == "write" {
		target = store + ".peer"
		if storage == "zip" {
			target = strings.TrimSuffix(store, ".zip") + "-peer.zip"
		}
		args = append(args, "--like", store, "--like-storage", storage)
		defer os.RemoveAll(target) //nolint:errcheck // the directory is temporary
	}
	cmd := exec.Command(python, append(args, target)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", name, err)
	}
	var p peerResult
	if err := json.Unmarshal(out, &p); err != nil {
		return result{}, err
	}
	if len(p.Seconds) == 0 {
		return result{}, fmt.Errorf("%s: no times in %s", name, out)
	}
	r := result{Seconds: p.Seconds[0], Peak: int64(p.Peak * (1 << 20)), Sum: p.Sum}
	if op == "write" {
		r.Size = p.Stored
	}
	return r, nil
}
