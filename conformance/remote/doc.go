// Package remote contains tests of remote stores: the number of requests per operation,
// the number of sequential round trips, the behavior after failed responses of all
// kinds, and the throughput of a connection with latency.
package remote
