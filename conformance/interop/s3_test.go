package interop_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
)

// TestBuckets reads a store that zarr-python writes to a bucket with obstore, and lets
// zarr-python read a store that nczctl copies into the bucket.
func TestBuckets(t *testing.T) {
	t.Parallel()
	need(t, "zarr", "numcodecs", "obstore")
	srv := s3server.Start(t)
	for _, kind := range []string{"types", "layout", "codecs"} {
		t.Run("we read/"+kind, func(t *testing.T) {
			t.Parallel()
			at := srv.Endpoint + "/" + srv.Bucket + "/theirs/" + kind
			want := must(t, "write.py", "--with", "zarr", "--storage", "s3", "--case", kind, at)
			same(t, want, encode(t, describe(t, at+"#mode=zarr,s3", false)), "", known("/json_attrs:")...)
		})
		t.Run("they read/"+kind, func(t *testing.T) {
			t.Parallel()
			at := srv.Endpoint + "/" + srv.Bucket + "/ours/" + kind
			local, want := sample(t, "write.py", "--with", "zarr", "--case", kind)
			ctl(t, "copy", "--consolidated", local, at+"#mode=zarr,s3")
			for _, how := range [][]string{{}, {"--consolidated"}} {
				got := must(t, "read.py", append(append([]string{"--with", "zarr", "--storage", "s3"}, how...), at)...)
				same(t, want, got, "attrs,fill")
			}
		})
	}
}
