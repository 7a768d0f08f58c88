package ncerr

import (
	"strconv"
	"strings"
)

// nearest gives the candidate with the smallest edit distance to word, or ""
// when none is close enough to be a likely misspelling.
func nearest(word string, candidates []string) string {
	best, limit := "", 1+len(word)/4
	for _, c := range candidates[:min(len(candidates), mostCandidates)] {
		if strings.EqualFold(c, word) {
			return c
		}
		if d := distance(word, c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes. Words longer than 64 bytes
// are no misspelling of anything here.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
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

// NoneOf returns the error for a name that is not among those in there. It
// suggests the name that was probably meant.
func NoneOf(kind Kind, op, name string, there []string) *Error {
	if n := nearest(name, there); n != "" {
		return Errorf(kind, op, name, "did you mean %q?", n)
	}
	return New(kind, op, name, nil)
}

// mostCandidates bounds the work of one message.
const mostCandidates = 1000

// DidYouMean returns `; did you mean "x"?` for the candidate that word most
// likely misspells, or "" if no candidate is close. It looks at the first 1,000
// candidates.
func DidYouMean(word string, candidates []string) string {
	if n := nearest(word, candidates); n != "" {
		return "; did you mean " + strconv.Quote(n) + "?"
	}
	return ""
}
