package s3

import "github.com/seed-695719ce/nczarr/core/zmap/driver"

// grants lists what the driver needs from its sandbox: the variables and files from
// which the SDK reads settings and credentials, the variables and files for proxies and
// certificates, the files used to resolve names, and ports.
//
// Source: AWS SDKs and Tools Reference Guide, "Environment variables" and "Location of
// the shared files"; Go's net, net/http and crypto/x509.
func grants(ports ...string) []string {
	list := []string{
		"env:AWS_*", "env:NC_TEST_AWS_DIR", "env:HOME",
		"env:HTTP_PROXY", "env:HTTPS_PROXY", "env:NO_PROXY", "env:http_proxy", "env:https_proxy", "env:no_proxy",
		"env:SSL_CERT_FILE", "env:SSL_CERT_DIR",
		"read:~/.aws/config", "read:~/.aws/credentials", "read:~/.aws/sso/cache", "read:~/.aws/login/cache",
		"read:$NC_TEST_AWS_DIR", "read:$AWS_CONFIG_FILE", "read:$AWS_SHARED_CREDENTIALS_FILE",
		"read:$AWS_WEB_IDENTITY_TOKEN_FILE", "read:$AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
		"read:$AWS_CA_BUNDLE", "read:$SSL_CERT_FILE", "read:$SSL_CERT_DIR",
		"read:/etc/hosts", "read:/etc/resolv.conf", "read:/etc/nsswitch.conf", "read:/etc/host.conf", "read:/run/systemd/resolve",
		"read:/etc/ssl", "read:/etc/pki", "read:/etc/ca-certificates", "read:/usr/share/ca-certificates", "read:/usr/local/share/ca-certificates",
	}
	return append(list, ports...)
}

// Grants implements driver.Granter. A store with an explicit endpoint needs the port of
// the endpoint, the ports of proxies, and the ports of the servers that provide
// credentials (https, and http for the metadata service of an instance).
func (*opener) Grants(spec driver.OpenSpec) []string {
	cfg, err := readConfig(spec.Options)
	if spec.Endpoint == "" && cfg.Endpoint == "" || err != nil {
		return grants("network")
	}
	ports := []string{"tcp:443", "tcp:80"}
	if spec.Endpoint != "" {
		ports = append(ports, "tcp:endpoint")
	} else {
		ports = append(ports, "network")
	}
	for _, name := range []string{
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
		"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_SSO", "AWS_ENDPOINT_URL_SSO_OIDC", "AWS_ENDPOINT_URL",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		ports = append(ports, "tcp:$"+name)
	}
	return grants(ports...)
}
