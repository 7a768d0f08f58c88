package host

import "github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"

// SetKernel makes a host believe that the kernel offers k.
func SetKernel(o *Options, k sandbox.Support) { o.kernel = func() sandbox.Support { return k } }
