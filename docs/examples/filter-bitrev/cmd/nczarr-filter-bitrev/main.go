// Command nczarr-filter-bitrev serves package bitrev as a plugin.
package main

import (
	"example.org/bitrev"

	"github.com/seed-695719ce/nczarr/core/plugin"
)

func main() { plugin.Serve(plugin.Filter(bitrev.New()), plugin.Version("1.0.0")) }
