// Package s3 is the storage driver for buckets of Amazon S3, of Google Cloud
// Storage's S3 interface, and of any server that speaks that protocol.
//
//	o := s3.New()
//	m, err := o.Open(ctx, driver.OpenSpec{
//		Path: "bucket/data/ocean.zarr", Endpoint: "https://s3.eu-west-1.amazonaws.com",
//		Options: []byte(`{"region": "eu-west-1"}`),
//	})
//
// An object of the store is an object of the bucket, its key that of the
// store's place, a slash and the key. Credentials come from where every
// program on the AWS SDK looks for them.
//
// Each method is one request, where the protocol has it; none is repeated,
// nothing is cached and no time limit is set: that is what core/zmap/layer is
// for. A Put with a condition whose answer was lost asks what became of it: see
// [New].
//
// An answer that does not fit the question (other bytes than asked for, a
// range that was ignored, another version, a length that is not known) is an
// error, never a value. Only the code NoSuchKey says that an object is absent.
package s3
