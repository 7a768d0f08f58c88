package ncerr

import (
	"math"
	"strconv"
	"strings"
)

// nearest returns the candidate with the smallest edit distance to word, or "" if word is
// not a likely misspelling of any candidate.
func nearest(word string, candidates []string) string {
	best, limit := "", 1+len(word)/4
	for _, c := range candidates[:min(len(candidates), maxCandidates)] {
		if strings.EqualFold(c, word) {
			return c
		}
		if d := distance(word, c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// distance returns the Levenshtein distance in bytes. It returns math.MaxInt if either
// word is longer than 64 bytes.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return math.MaxInt
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			above := row[j+1]
			row[j+1] = min(above+1, row[j]+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(b)]
}

// UnknownName returns the error for a name that is not one of known. It suggests the
// known name that was probably meant.
func UnknownName(kind Kind, op, name string, known []string) *Error {
	if n := nearest(name, known); n != "" {
		return Errorf(kind, op, name, "did you mean %q?", n)
	}
	return New(kind, op, name, nil)
}

// maxCandidates is the maximum number of candidates compared with one word.
const maxCandidates = 1000

// DidYouMean returns `; did you mean "x"?` for the candidate closest to word, or "" if
// no candidate is close. It considers only the first 1,000 candidates.
func DidYouMean(word string, candidates []string) string {
	if n := nearest(word, candidates); n != "" {
		return "; did you mean " + strconv.Quote(n) + "?"
	}
	return ""
}
