package driver_test

import (
	"errors"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func TestParseGrant(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"path:read", "path:write", "dir:write", "read:/etc/hosts", "read:~/.aws", "write:$SPOOL/x", "read:$AWS_CA_BUNDLE",
		"tcp:443", "tcp:endpoint", "tcp:$HTTPS_PROXY", "network", "env:HOME", "env:AWS_*",
	} {
		g, err := driver.ParseGrant(text)
		if err != nil || g.String() != text {
			t.Errorf("ParseGrant(%q): got %q, %v", text, g, err)
		}
	}
	for _, text := range []string{
		"", "path", "path:", "path:all", "dir:read", "read:", "read:etc", "read:../x", "read:$", "write:~", "tcp:0", "tcp:65536",
		"tcp:-1", "tcp:", "tcp:$", "network:", "network:x", "env:", "env:*", "env:A*B", "env:A=B", "read:/a\x00b", "all", "exec:/bin/sh",
	} {
		if g, err := driver.ParseGrant(text); !errors.Is(err, ncerr.ErrInvalid) {
			t.Errorf("%q: want ErrInvalid, got %q, %v", text, g, err)
		}
	}
}
