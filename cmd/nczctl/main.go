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
	// When this process was started by another nczctl to serve the built-in
	// drivers or filters, Main does that and does not return.
	os.Exit(run(session.Main()))
}

// run is the whole program but for the exit.
func run(self plugin.Self) int {
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away is an error of writing: plugins are still ended in order
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if build, ok := debug.ReadBuildInfo(); ok {
		version = recordedVersion(build)
	}
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, self: self}
	return a.main(ctx, os.Args[1:])
}
