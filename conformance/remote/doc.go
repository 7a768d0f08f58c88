// Package remote contains tests of remote stores: the number of requests per operation,
// how many of them are sequential, the behavior after failed responses of all kinds,
// and the throughput of a connection with latency.
package remote
