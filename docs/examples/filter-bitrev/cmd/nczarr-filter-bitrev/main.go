// Command nczarr-filter-bitrev is the plugin that serves package bitrev.
package main

import (
	"example.org/bitrev"

	"github.com/seed-695719ce/nczarr/core/plugin"
)

func main() { plugin.Serve(plugin.Filter(bitrev.New()), plugin.Version("1.0.0")) }
