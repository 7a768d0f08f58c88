// Package corpora contains a table of all files that other implementations wrote for
// acceptance tests, with the nczctl command that reads each file and the expected
// result. The files are not part of the project; without them the tests are skipped.
package corpora
