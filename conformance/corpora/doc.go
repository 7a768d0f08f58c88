// Package corpora holds the table of every file that other implementations
// wrote for acceptance tests, with the nczctl command that reads it and what
// must come of it. The files themselves are not part of the project: without
// them the tests are skipped.
package corpora
