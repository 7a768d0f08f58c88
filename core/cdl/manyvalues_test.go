package cdl_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl"
)

// Values that several goroutines format are printed in order, in lines filled as for few
// values. The expected text is computed value by value.
func TestDumpOfManyValues(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2047, 2048, 2049, 100_003} {
		values := make([]int32, n)
		var text strings.Builder
		for i := range values {
			values[i] = int32(i * i * 7919) // of any number of digits
			if i > 0 {
				text.WriteByte(',')
			}
			text.WriteString(strconv.Itoa(int(values[i])))
		}
		ds := generate(t, fmt.Sprintf("netcdf many { dimensions: x = %d ; variables: int v(x) ; data: v = %s ; }", n, text.String()))
		var want strings.Builder
		want.WriteString("\n v = ")
		column := len(" v = ")
		for i, value := range values {
			item := strconv.Itoa(int(value))
			if i < n-1 {
				item += ", "
			}
			if column+len(item) > 78 && len(item) > 2 {
				want.WriteString("\n    ")
				column = 4
			}
			want.WriteString(item)
			column += len(item)
		}
		want.WriteString(" ;\n")
		var got strings.Builder
		if err := cdl.Write(t.Context(), &got, ds, nil); err != nil {
			t.Fatal(err)
		}
		if _, text, _ := strings.Cut(got.String(), "data:\n"); !strings.HasPrefix(text, want.String()) {
			t.Errorf("%d values: the text differs from that of the same values one by one", n)
		}
	}
}
