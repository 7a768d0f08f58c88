package http

import (
	"path/filepath"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

var _ driver.Granter = Opener{}

// Grants implements driver.Granter. It adds the files named in the options to the grants
// of every store. The network is not restricted, because redirects may lead to any port.
func (Opener) Grants(spec driver.OpenSpec) []string {
	opts := defaults()
	if err := driver.DecodeOptions(spec.Options, &opts); err != nil {
		return grants() // Open reports the error
	}
	var files []string
	for _, name := range []string{opts.Netrc, opts.CAFile} {
		if filepath.IsAbs(name) {
			files = append(files, "read:"+name)
		}
	}
	return grants(files...)
}

// grants lists what the driver needs from its sandbox: the network, the variables and
// files for proxies, certificates and logins, and the files used to resolve names.
func grants(more ...string) []string {
	return append([]string{
		"network", "env:HOME", "env:NETRC",
		"env:HTTP_PROXY", "env:HTTPS_PROXY", "env:NO_PROXY", "env:http_proxy", "env:https_proxy", "env:no_proxy",
		"env:SSL_CERT_FILE", "env:SSL_CERT_DIR",
		"read:~/.netrc", "read:$NETRC", "read:$SSL_CERT_FILE", "read:$SSL_CERT_DIR",
		"read:/etc/hosts", "read:/etc/resolv.conf", "read:/etc/nsswitch.conf", "read:/etc/host.conf", "read:/run/systemd/resolve",
		"read:/etc/ssl", "read:/etc/pki", "read:/etc/ca-certificates", "read:/usr/share/ca-certificates", "read:/usr/local/share/ca-certificates",
	}, more...)
}
