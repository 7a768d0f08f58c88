// Package s3 is the storage driver for buckets of Amazon S3, of Google Cloud
// Storage's S3 interface, and of any server that speaks that protocol.
//
//	o := s3.New()
//	m, err := o.Open(ctx, driver.OpenSpec{
//		Path: "bucket/data/ocean.zarr", Endpoint: "https://s3.eu-west-1.amazonaws.com",
//		Options: []byte(`{"region": "eu-west-1"}`),
//	})
//
// An object of the store is an object of the bucket. Its key consists of the key of the
// store, a slash and the key within the store. The driver gets credentials from the
// same sources as all programs that use the AWS SDK.
//
// Each method sends one request where the protocol allows it. The driver does not
// retry, cache or set time limits; core/zmap/layer does. If the response to a Put with
// a condition is lost, the driver checks whether the write succeeded: see [New].
//
// A response that does not match the request (other bytes than requested, an ignored
// range, another version, an unknown length) is an error, never a value. Only the code
// NoSuchKey means that an object does not exist.
package s3
