package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// chunkSpec is the parsed value of -c or --shards: lengths by dimension name and
// shapes by variable name.
type chunkSpec struct {
	flag string // for messages
	dims map[string]int64
	vars map[string][]int64
}

// parseChunkSpec parses items of the forms "dim/N,dim/N" and "var:N,N", separated by
// semicolons.
//
// Source: the -c option of nccopy.
func parseChunkSpec(flag, text string) (*chunkSpec, error) {
	spec := &chunkSpec{flag: flag, dims: make(map[string]int64), vars: make(map[string][]int64)}
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if name, shape, ok := strings.Cut(part, ":"); ok {
			for n := range strings.SplitSeq(shape, ",") {
				v, err := parseLength(n)
				if err != nil {
					return nil, fmt.Errorf("%s %s: %w", flag, part, err)
				}
				spec.vars[strings.TrimPrefix(name, "/")] = append(spec.vars[strings.TrimPrefix(name, "/")], v)
			}
			continue
		}
		for item := range strings.SplitSeq(part, ",") {
			i := strings.LastIndexByte(item, '/')
			if i < 1 {
				return nil, fmt.Errorf("%s %s: %q is neither dim/N nor var:N,N", flag, text, item)
			}
			v, err := parseLength(item[i+1:])
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", flag, text, err)
			}
			spec.dims[strings.TrimPrefix(item[:i], "/")] = v
		}
	}
	return spec, nil
}

func parseLength(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("invalid length %q", text)
	}
	return n, nil
}

// chunks returns the chunk shape of a variable, or nil if the spec does not change
// it.
func (s *chunkSpec) chunks(v *dataset.Var) ([]int64, error) { return s.shape(v, v.Chunks()) }

// shards returns the shape of the shards of a variable. A dimension without a length in
// the spec has the length of the chunks. ok is false if the spec does not change the
// shards.
func (s *chunkSpec) shards(v *dataset.Var, chunks []int64) (shape []int64, ok bool, err error) {
	shape, err = s.shape(v, slices.Clone(chunks))
	for i, n := range shape {
		if n%chunks[i] != 0 {
			return nil, false, &usageError{fmt.Errorf("%s: %v is not a multiple of the chunk shape %v of %q", s.flag, shape, chunks, v.Path())}
		}
	}
	return shape, shape != nil, err
}

// shape returns the shape that the spec sets for a variable, or nil if the spec sets no
// shape for it. It overwrites lengths in the argument shape.
func (s *chunkSpec) shape(v *dataset.Var, shape []int64) ([]int64, error) {
	for _, name := range []string{strings.TrimPrefix(v.Path(), "/"), v.Name()} {
		if shape := s.vars[name]; shape != nil {
			if len(shape) != v.Rank() {
				return nil, &usageError{fmt.Errorf("%s %s: %d lengths for the %d dimensions of %q", s.flag, name, len(shape), v.Rank(), v.Path())}
			}
			return shape, nil
		}
	}
	changed := false
	for i, d := range v.Dims() {
		for _, name := range []string{d.Name(), strings.TrimPrefix(d.Path(), "/")} {
			if n, ok := s.dims[name]; ok {
				shape[i], changed = n, true
			}
		}
	}
	if !changed {
		return nil, nil
	}
	return shape, nil
}

// check fails if the spec contains a variable that src does not have, or a dimension
// that no variable of src uses.
func (s *chunkSpec) check(src *dataset.Dataset) error {
	known := make(map[string]bool)
	eachVar(src.Root(), func(v *dataset.Var) {
		known["variable "+v.Name()], known["variable "+strings.TrimPrefix(v.Path(), "/")] = true, true
		for _, d := range v.Dims() {
			known["dimension "+d.Name()], known["dimension "+strings.TrimPrefix(d.Path(), "/")] = true, true
		}
	})
	candidates := func(what string) (list []string) {
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if rest, ok := strings.CutPrefix(name, what+" "); ok {
				list = append(list, rest)
			}
		}
		return list
	}
	var names []string
	for name := range s.dims {
		names = append(names, "dimension "+name)
	}
	for name := range s.vars {
		names = append(names, "variable "+name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !known[name] {
			what, name, _ := strings.Cut(name, " ")
			return &usageError{fmt.Errorf("%s: no such %s %q%s", s.flag, what, name, ncerr.DidYouMean(name, candidates(what)))}
		}
	}
	return nil
}

// parseCodecs parses "none", a list such as "id:key=value:key=value,id", or a JSON
// list.
func parseCodecs(text string) ([]zarr.CodecSpec, error) {
	if text == "none" {
		return nil, nil
	}
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return parseCodecList(text)
	}
	var chain []zarr.CodecSpec
	for item := range strings.SplitSeq(text, ",") {
		parts := strings.Split(item, ":")
		params := map[string]any{"id": parts[0]}
		switch {
		case parts[0] == "":
			return nil, fmt.Errorf("--codec %s: the codec name is empty", text)
		case strings.Contains(parts[0], "="):
			return nil, fmt.Errorf("--codec %s: the parameter %q must follow a colon", text, parts[0])
		}
		for _, p := range parts[1:] {
			key, value, ok := strings.Cut(p, "=")
			if !ok {
				return nil, fmt.Errorf("--codec %s: %q is not key=value", text, p)
			}
			params[key] = paramValue(value)
		}
		raw, err := json.Marshal(params)
		if err != nil {
			return nil, err
		}
		chain = append(chain, zarr.CodecSpec{ID: parts[0], Params: raw})
	}
	return chain, nil
}

// paramValue returns text as an integer, a float or a bool if it parses as one, and
// as a string otherwise.
func paramValue(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	if b, err := strconv.ParseBool(text); err == nil {
		return b
	}
	return text
}

func parseCodecList(text string) ([]zarr.CodecSpec, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("--codec: %w", err)
	}
	chain := make([]zarr.CodecSpec, len(list))
	for i, raw := range list {
		var head struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &head); err != nil || head.ID == "" {
			return nil, fmt.Errorf("--codec: %s has no \"id\"", raw)
		}
		chain[i] = zarr.CodecSpec{ID: head.ID, Params: raw}
	}
	return chain, nil
}

// parseQuantize parses the value of --quantize, such as "bitgroom=3".
func parseQuantize(text string) (dtype.Quantization, error) {
	mode, digits, _ := strings.Cut(text, "=")
	modes := map[string]dtype.QuantizeMode{"bitgroom": dtype.BitGroom, "granular": dtype.GranularBitRound, "bitround": dtype.BitRound}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || modes[mode] == dtype.QuantizeNone {
		return dtype.Quantization{}, fmt.Errorf("--quantize must be bitgroom=N, granular=N or bitround=N, not %s", text)
	}
	return dtype.Quantization{Mode: modes[mode], Digits: n}, nil
}
