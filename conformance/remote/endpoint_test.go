package remote_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

const endpointConfig = `[default]
region = us-east-1
endpoint_url = http://default.test
[profile own]
endpoint_url = http://own.test
[profile serviced]
services = lab
endpoint_url = http://serviced.test
[profile other]
services = nothing
endpoint_url = http://other.test
[profile only]
services=lab
[profile deaf]
services = lab
ignore_configured_endpoint_urls = true
[profile lost]
services = missing
[services lab]
dynamodb =
  endpoint_url = http://dynamodb.test
s3 =
  # ours
  endpoint_url = http://services.test:9000
  addressing_style = path
[services nothing]
dynamodb =
  endpoint_url = http://dynamodb.test
`

// TestEndpointMatchesSDK checks that the driver and the AWS SDK choose the same server, and
// checks the explanation of the choice.
func TestEndpointMatchesSDK(t *testing.T) { // not parallel, because it sets environment variables
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(endpointConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	const url, urlS3, ignore = "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
	for _, tc := range []struct {
		name, profile     string
		vars              map[string]string
		want, explanation string
	}{
		{name: "default", want: "http://default.test", explanation: `endpoint_url of the profile "default"`},
		{name: "profile", profile: "own", want: "http://own.test", explanation: `profile "own"`},
		{name: "services", profile: "serviced", want: "http://services.test:9000", explanation: `endpoint_url of s3 in the section "lab"`},
		{name: "services without s3", profile: "other", want: "http://other.test", explanation: `profile "other"`},
		{name: "services only", profile: "only", want: "http://services.test:9000", explanation: `section "lab"`},
		{name: "no such section", profile: "lost"},
		{name: "ignored by the profile", profile: "deaf", explanation: `ignore_configured_endpoint_urls of the profile "deaf"`},
		{name: "variable", profile: "serviced", vars: map[string]string{url: "http://var.test"}, want: "http://var.test", explanation: "the variable " + url},
		{name: "variable of S3", profile: "serviced", vars: map[string]string{url: "http://var.test", urlS3: "http://s3.test"}, want: "http://s3.test", explanation: "the variable " + urlS3},
		{name: "ignored by the variable", profile: "serviced", vars: map[string]string{urlS3: "http://s3.test", ignore: "TRUE"}, explanation: ignore},
		{name: "variable before profile", profile: "deaf", vars: map[string]string{ignore: "false"}, want: "http://services.test:9000", explanation: `section "lab"`},
		{name: "ignored by the profile, variable", profile: "deaf", vars: map[string]string{url: "http://var.test"}, explanation: "disables"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := map[string]string{
				"AWS_CONFIG_FILE": file, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_PROFILE": tc.profile, "AWS_REGION": "us-east-1",
				url: "", urlS3: "", ignore: "",
			}
			for name := range env {
				t.Setenv(name, "")
				if err := os.Unsetenv(name); err != nil {
					t.Fatal(err)
				}
			}
			for name, value := range tc.vars {
				env[name] = value
			}
			for name, value := range env {
				if value != "" {
					t.Setenv(name, value)
				}
			}
			if got := endpointOfSDK(t); got != tc.want {
				t.Errorf("server chosen by the SDK: want %q, got %q", tc.want, got)
			}
			loc := located(t, env)
			want := tc.want
			if want == "" {
				want = "https://s3.us-east-1.amazonaws.com"
			}
			var explanation bytes.Buffer
			if err := loc.Explain(&explanation); err != nil {
				t.Fatal(err)
			}
			if loc.Endpoint != want || !strings.Contains(explanation.String(), tc.explanation) {
				t.Errorf("want %q by %q, got %q:\n%s", want, tc.explanation, loc.Endpoint, explanation.String())
			}
		})
	}
}

// endpointOfSDK returns the server that the SDK chooses, or "" for Amazon's own.
func endpointOfSDK(t *testing.T) string {
	t.Helper()
	cfg, err := awsconfig.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if base := awss3.NewFromConfig(cfg).Options().BaseEndpoint; base != nil {
		return *base
	}
	return ""
}

// located parses an s3: URL with the settings of the AWS files.
func located(t *testing.T, vars map[string]string) *ncurl.Location {
	t.Helper()
	profiles, problems := config.LoadAWS(config.AWSFiles(config.Env{Vars: vars}), os.ReadFile)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	env := &ncurl.Env{Vars: vars, Profiles: map[string]ncurl.Profile{}}
	for name, p := range profiles {
		env.Profiles[name] = ncurl.Profile(p)
	}
	loc, err := ncurl.Parse("s3://b/k", env)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}
