// Package remote has the tests of stores that are far away: how many requests
// an operation takes and how many of them wait for each other, what happens
// when answers fail in every way, and how fast data moves over a connection
// with latency.
package remote
