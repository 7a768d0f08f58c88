package s3_test

import (
	"crypto/sha1" // the SSO cache uses SHA-1 in file names
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// The fake credentials that every source returns.
const (
	keyID   = "AKIDFROMSOURCE"
	secret  = "secret-of-the-source"  // a fake value
	session = "session-of-the-source" // a fake value
	bearer  = "bearer-of-the-user"    // a fake value
)

// credentialServer is a server that provides credentials in all supported ways: STS,
// SSO, containers and instances. It refuses requests without the right token.
func credentialServer(t *testing.T) *httptest.Server {
	t.Helper()
	const expires = "2100-01-01T00:00:00Z"
	mux := http.NewServeMux()
	show := func(pattern, header, token, kind, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if header != "" && r.Header.Get(header) != token {
				http.Error(w, "no token", http.StatusUnauthorized)
				return
			}
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(body)) // the caller notices missing bytes
		})
	}
	role := fmt.Sprintf(`{"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": %q, "SecretAccessKey": %q, "Token": %q, "Expiration": %q, "LastUpdated": "2020-01-01T00:00:00Z"}`, keyID, secret, session, expires)
	show("GET /container", "Authorization", bearer, "application/json", role)
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		_, _ = w.Write([]byte(bearer))
	})
	show("GET /latest/meta-data/iam/security-credentials/{$}", "X-Aws-Ec2-Metadata-Token", bearer, "text/plain", "the-role")
	show("GET /latest/meta-data/iam/security-credentials/the-role", "X-Aws-Ec2-Metadata-Token", bearer, "application/json", role)
	show("GET /federation/credentials", "X-Amz-Sso_bearer_token", bearer, "application/json", fmt.Sprintf(
		`{"roleCredentials": {"accessKeyId": %q, "secretAccessKey": %q, "sessionToken": %q, "expiration": 4102444800000}}`, keyID, secret, session))
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("WebIdentityToken") != bearer {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, keyID, secret, session, expires)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// bucketFor returns an S3 server that answers requests that are unsigned or signed with
// keyID. The content of its objects states whether the request was signed and whether
// it had a session token.
func bucketFor(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		switch {
		case auth == "":
			auth = "unsigned"
		case strings.Contains(auth, "Credential="+keyID+"/"):
			auth = "signed"
		default:
			refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
			return
		}
		if token := r.Header.Get("X-Amz-Security-Token"); token == session {
			auth += " with token"
		} else if token != "" {
			refuse(w, http.StatusForbidden, "InvalidToken")
			return
		}
		w.Header().Set("ETag", `"v"`)
		_, _ = w.Write([]byte(auth))
	}))
	t.Cleanup(srv.Close)
	return srv
}

// source is one way to get credentials: files below the home directory, and variables
// in which HOME and URL are replaced by that directory and the URL of credentialServer.
type source struct {
	env     map[string]string
	files   map[string]string
	options map[string]any
	want    string
}

func sources() map[string]source {
	sum := sha1.Sum([]byte("my-sso")) // the name of the cache file
	static := "[%s]\naws_access_key_id = " + keyID + "\naws_secret_access_key = " + secret + "\n"
	return map[string]source{
		"environment":        {env: map[string]string{"AWS_ACCESS_KEY_ID": keyID, "AWS_SECRET_ACCESS_KEY": secret}, want: "signed"},
		"session token":      {env: map[string]string{"AWS_ACCESS_KEY_ID": keyID, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": session}, want: "signed with token"},
		"credentials file":   {files: map[string]string{".aws/credentials": fmt.Sprintf(static, "default")}, want: "signed"},
		"profile of config":  {files: map[string]string{".aws/config": fmt.Sprintf(static, "profile other")}, options: map[string]any{"profile": "other"}, want: "signed"},
		"profile by name":    {files: map[string]string{".aws/credentials": fmt.Sprintf(static, "other")}, env: map[string]string{"AWS_PROFILE": "other"}, want: "signed"},
		"files by variables": {files: map[string]string{"elsewhere/c": fmt.Sprintf(static, "default")}, env: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "HOME/elsewhere/c"}, want: "signed"},
		"web identity": {
			files: map[string]string{"elsewhere/token": bearer},
			env: map[string]string{
				"AWS_WEB_IDENTITY_TOKEN_FILE": "HOME/elsewhere/token", "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r",
				"AWS_ROLE_SESSION_NAME": "s", "AWS_ENDPOINT_URL_STS": "URL",
			}, want: "signed with token",
		},
		"sso": {
			files: map[string]string{
				".aws/sso/cache/" + hex.EncodeToString(sum[:]) + ".json": `{"accessToken": "` + bearer + `", "expiresAt": "2100-01-01T00:00:00Z"}`,
				".aws/config": "[default]\nsso_session = my-sso\nsso_account_id = 123456789012\nsso_role_name = r\n" +
					"[sso-session my-sso]\nsso_region = us-east-1\nsso_start_url = https://start.example.com\n",
			},
			env: map[string]string{"AWS_ENDPOINT_URL_SSO": "URL"}, want: "signed with token",
		},
		"container": {
			files: map[string]string{"elsewhere/token": bearer},
			env:   map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "URL/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "HOME/elsewhere/token"},
			want:  "signed with token",
		},
		"instance": {
			env:  map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "URL", "AWS_EC2_METADATA_DISABLED": "false"},
			want: "signed with token",
		},
		"unsigned": {env: map[string]string{"AWS_ACCESS_KEY_ID": keyID, "AWS_SECRET_ACCESS_KEY": secret}, options: map[string]any{"unsigned": true}, want: "unsigned"},
	}
}

// testDir is the environment variable that sets the home directory of the SDK in this
// process. Changing HOME has no effect, because the SDK reads HOME only at the start.
const testDir = "NC_TEST_AWS_DIR"

// set makes s the only source of credentials in the environment of the test. It returns
// the new home directory.
func (s source) set(t *testing.T, url string) string {
	t.Helper()
	home := t.TempDir()
	for _, line := range os.Environ() {
		if name, _, _ := cut(line); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "") // makes the test restore the variable
			os.Unsetenv(name)
		}
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("HOME", home)
	for name, text := range s.files {
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range s.env {
		t.Setenv(name, strings.NewReplacer("HOME", home, "URL", url).Replace(value))
	}
	return home
}

func readWith(t *testing.T, o driver.Opener, endpoint string, options map[string]any) (string, error) {
	t.Helper()
	spec := specOn(endpoint, "bucket", options)
	spec.Mode = driver.Read
	m, err := o.Open(t.Context(), spec)
	if err != nil {
		return "", err
	}
	data, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return string(data), err
}

// TestCredentialSources checks that the driver gets credentials from every source of the
// SDK, in this process and in a separate process with the driver's grants.
func TestCredentialSources(t *testing.T) { // not parallel, because it sets environment variables
	credServer, srv := credentialServer(t), bucketFor(t)
	for name, src := range sources() {
		t.Run(name, func(t *testing.T) {
			home := src.set(t, credServer.URL)
			got, err := readWith(t, remote(t), srv.URL, src.options)
			if err != nil || got != src.want {
				t.Errorf("own process: want %q, got %q, %v", src.want, got, err)
			}
			t.Setenv(testDir, home)
			got, err = readWith(t, s3.New(), srv.URL, src.options)
			if err != nil || got != src.want {
				t.Errorf("in process: want %q, got %q, %v", src.want, got, err)
			}
		})
	}
}

// TestNoSecretInErrors uses every source with a server that refuses the credentials,
// and with a failing source. The errors must not contain a secret.
func TestNoSecretInErrors(t *testing.T) { // not parallel, because it sets environment variables
	credServer := credentialServer(t)
	refusing := httptest.NewServer(refusal(http.StatusForbidden, "InvalidAccessKeyId"))
	defer refusing.Close()
	silent := httptest.NewServer(refusal(http.StatusForbidden, "AccessDenied"))
	defer silent.Close()
	for name, src := range sources() {
		for broken, url := range map[string]string{"refused": credServer.URL, "nothing given": silent.URL} {
			t.Run(name+"/"+broken, func(t *testing.T) {
				t.Setenv(testDir, src.set(t, url))
				_, err := readWith(t, s3.New(), refusing.URL, src.options)
				if ncerr.KindOf(err) != ncerr.ErrAuth {
					t.Errorf("want ErrAuth, got %v", err)
				}
				for _, text := range []string{secret, session, bearer} {
					if strings.Contains(fmt.Sprint(err), text) {
						t.Errorf("%q is in the error: %v", text, err)
					}
				}
			})
		}
	}
}

// TestCredentialsNotGranted checks that the driver in a separate process cannot start a
// program or read a file to which no AWS variable refers.
func TestCredentialsNotGranted(t *testing.T) { // not parallel, because it sets environment variables
	credServer, srv := credentialServer(t), bucketFor(t)
	for name, config := range map[string]string{
		"process": "credential_process = /bin/echo '{\"Version\": 1, \"AccessKeyId\": \"" + keyID + "\", \"SecretAccessKey\": \"" + secret + "\"}'\n",
		"file":    "role_arn = arn:aws:iam::123456789012:role/r\nweb_identity_token_file = TOKEN\n",
	} {
		t.Run(name, func(t *testing.T) {
			token := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(token, []byte(bearer), 0o600); err != nil {
				t.Fatal(err)
			}
			home := source{
				files: map[string]string{".aws/config": "[default]\n" + strings.ReplaceAll(config, "TOKEN", token)},
				env:   map[string]string{"AWS_ENDPOINT_URL_STS": "URL"},
			}.set(t, credServer.URL)
			h, err := host.New(&host.Options{Self: self, Isolation: host.Process, Sandbox: host.SandboxRequire, StartTimeout: 2 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close(t.Context()) // Close runs at the end of the test
			o, err := h.Driver("s3")
			if err != nil {
				t.Fatal(err)
			}
			_, err = readWith(t, o, srv.URL, nil)
			t.Setenv(testDir, home)
			if got, err := readWith(t, s3.New(), srv.URL, nil); err != nil || !strings.HasPrefix(got, "signed") {
				t.Errorf("in process: got %q, %v", got, err)
			}
			if strings.Contains(fmt.Sprint(err), "sandbox is required") {
				t.Skip("the sandbox is incomplete on this system: ", err)
			}
			if ncerr.KindOf(err) != ncerr.ErrAuth || strings.Contains(err.Error(), secret) {
				t.Errorf("own process: want ErrAuth, got %v", err)
			}
		})
	}
}
