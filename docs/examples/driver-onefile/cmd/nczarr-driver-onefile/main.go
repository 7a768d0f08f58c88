// Command nczarr-driver-onefile serves package onefile as a plugin.
package main

import (
	"example.org/onefile"

	"github.com/seed-695719ce/nczarr/core/plugin"
)

func main() { plugin.Serve(plugin.Driver(onefile.New()), plugin.Version("1.0.0")) }
