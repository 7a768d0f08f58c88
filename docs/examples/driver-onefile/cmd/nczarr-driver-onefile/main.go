// Command nczarr-driver-onefile is the plugin that serves package onefile.
package main

import (
	"example.org/onefile"

	"github.com/seed-695719ce/nczarr/core/plugin"
)

func main() { plugin.Serve(plugin.Driver(onefile.New()), plugin.Version("1.0.0")) }
