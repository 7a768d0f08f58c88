// Command nczctl reads, writes, copies and examines NCZarr and Zarr datasets.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/session"
)

func main() {
	// If another nczctl started this process to serve the built-in drivers or
	// filters, Main serves them and does not return.
	os.Exit(run(session.Main()))
}

// run runs the program and returns its exit code.
func run(self plugin.Self) int {
	signal.Ignore(syscall.SIGPIPE) // writing to a closed pipe fails instead, so plugins are still stopped
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if build, ok := debug.ReadBuildInfo(); ok {
		version = recordedVersion(build)
	}
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, self: self}
	return a.main(ctx, os.Args[1:])
}
