package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

func TestRCFiles(t *testing.T) {
	t.Parallel()
	vars := func(kv ...string) map[string]string { return map[string]string{kv[0]: kv[1]} }
	for name, c := range map[string]struct {
		env  config.Env
		want string
	}{
		"home, then current": {config.Env{Home: "/h", Cwd: "/w"}, "/h/.ncrc /h/.daprc /h/.dodsrc /w/.ncrc /w/.daprc /w/.dodsrc"},
		"one directory":      {config.Env{Home: "/h", Cwd: "/h"}, "/h/.ncrc /h/.daprc /h/.dodsrc"},
		"no home":            {config.Env{Cwd: "/w"}, "/w/.ncrc /w/.daprc /w/.dodsrc"},
		"ignored":            {config.Env{Home: "/h", Vars: vars("NCRCENV_IGNORE", "1")}, ""},
		"one file":           {config.Env{Home: "/h", Vars: vars("NCRCENV_RC", "/etc/rc")}, "/etc/rc"},
		"other home":         {config.Env{Home: "/h", Vars: vars("NCRCENV_HOME", "/o")}, "/o/.ncrc /o/.daprc /o/.dodsrc"},
		"nowhere":            {config.Env{}, ""},
	} {
		var paths []string
		for _, f := range config.RCFiles(c.env) {
			if f.Local != (c.env.Cwd != c.env.Home && strings.HasPrefix(f.Path, "/w/")) {
				t.Errorf("%s: %+v", name, f)
			}
			paths = append(paths, f.Path)
		}
		if got := strings.Join(paths, " "); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}

func TestParseRC(t *testing.T) {
	t.Parallel()
	text := "\ufeff# comment\r\n\r\n AWS.PROFILE = ocean \r\n[ https://h.example:9000/b ] AWS.REGION=eu = west\n" +
		"ZARR.DIMENSION_SEPARATOR=/\nHTTP.SSL.VERIFY=\n# [x]y=z"
	got, problems := config.ParseRC("rc", []byte(text))
	want := []config.RCEntry{
		{Key: "AWS.PROFILE", Value: "ocean", Source: "rc:3"},
		{Host: "https://h.example:9000/b", Key: "AWS.REGION", Value: "eu = west", Source: "rc:4"},
		{Key: "ZARR.DIMENSION_SEPARATOR", Value: "/", Source: "rc:5"},
		{Key: "HTTP.SSL.VERIFY", Source: "rc:6"},
	}
	if len(problems) != 0 || !slices.Equal(got, want) {
		t.Errorf("want %+v\n got %+v, %v", want, got, problems)
	}
}

func TestRCProblems(t *testing.T) {
	t.Parallel()
	got, problems := config.ParseRC("rc", []byte("good=1\nhunter2\n[open hunter2=1\n[host]\n=hunter2\nalso=2\n[h] word hunter2"))
	if len(got) != 2 || got[1].Key != "also" {
		t.Errorf("want the two valid lines, got %+v", got)
	}
	want := []string{
		`read configuration "rc:2": invalid argument: the line is not of the form KEY=VALUE`,
		`read configuration "rc:3": invalid argument: the section has no "]"`,
		`read configuration "rc:4": invalid argument: a section must be on the same line as its key: [HOST]KEY=VALUE`,
		`read configuration "rc:5": invalid argument: the line is not of the form KEY=VALUE`,
		`read configuration "rc:7": invalid argument: the line is not of the form KEY=VALUE`,
	}
	expectProblems(t, problems, want)
	_, problems = config.ParseRC("rc", make([]byte, 1<<16+1))
	expectProblems(t, problems, []string{`read configuration "rc": limit exceeded: the file exceeds the limit of 65536 bytes`})
}

func expectProblems(t *testing.T, problems []error, want []string) {
	t.Helper()
	var got []string
	for _, p := range problems {
		got = append(got, p.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems\nwant %q\n got %q", want, got)
	}
}

// TestLoadRC checks LoadRC and that URL inference accepts its entries.
func TestLoadRC(t *testing.T) {
	t.Parallel()
	disk := files{"/h/.ncrc": "AWS.REGION=home\nAWS.PROFILE=p", "/w/.dodsrc": "AWS.REGION=here", "/w/.ncrc": "forbidden"}
	entries, problems := config.LoadRC(config.RCFiles(config.Env{Home: "/h", Cwd: "/w"}), disk.read)
	if len(entries) != 3 || len(problems) != 1 || !strings.Contains(problems[0].Error(), "/w/.ncrc") {
		t.Fatalf("got %+v, %v", entries, problems)
	}
	env := &ncurl.Env{}
	for _, e := range entries {
		env.RC = append(env.RC, ncurl.RCEntry(e))
	}
	loc, err := ncurl.Parse("s3://b/k", env)
	if err != nil || loc.Region != "here" || loc.Profile != "p" {
		t.Errorf("got %+v, %v", loc, err)
	}
}

// TestLocalRC checks that a file in the current directory cannot set servers or
// credentials, and that one line reports all ignored keys.
func TestLocalRC(t *testing.T) {
	t.Parallel()
	text := "aws.endpoint=http://evil.example\n[s3.example]AWS.ENDPOINT_URL=http://evil.example\nHTTP.PROXY.SERVER=http://evil.example\n" +
		"HTTP.PROXY_SERVER=http://evil.example\nHTTP.SSL.CAINFO=evil.pem\nHTTP.NETRC=evil\nAWS.REGION=here\n" +
		"[s3.example]aws.profile=theirs\n[h.example]HTTP.CREDENTIALS.USERNAME=theirs\n[h.example]http.credentials.password=theirs\n"
	disk := files{"/w/.ncrc": text, "/h/.ncrc": text}
	entries, problems := config.LoadRC([]config.RCFile{{Path: "/w/.ncrc", Local: true}}, disk.read)
	if len(entries) != 1 || entries[0].Key != "AWS.REGION" {
		t.Errorf("want only AWS.REGION, got %+v", entries)
	}
	want := `read configuration "/w/.ncrc": permission denied: aws.endpoint, AWS.ENDPOINT_URL, HTTP.PROXY.SERVER, HTTP.PROXY_SERVER, ` +
		`HTTP.SSL.CAINFO, HTTP.NETRC, aws.profile, HTTP.CREDENTIALS.USERNAME, http.credentials.password ignored: ` +
		`a file in the current directory must not set servers or credentials`
	if len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("problems\nwant %q\n got %q", want, problems)
	}
	if entries, problems = config.LoadRC([]config.RCFile{{Path: "/h/.ncrc"}}, disk.read); len(entries) != 10 || problems != nil {
		t.Errorf("home directory: want 10 entries and no problems, got %+v, %v", entries, problems)
	}
}

// TestReadFile checks that ReadFile neither blocks on special files nor reads huge
// files completely.
func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := filepath.Join(dir, ".ncrc")
	if err := os.WriteFile(long, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, 1<<24); err != nil {
		t.Fatal(err)
	}
	if data, err := config.ReadFile(long); err != nil || len(data) > 1<<17 {
		t.Errorf("a long file: want at most 128 KiB, got %d bytes, %v", len(data), err)
	}
	for _, name := range []string{dir, os.DevNull} {
		if _, err := config.ReadFile(name); err == nil {
			t.Errorf("ReadFile(%q) returned no error", name)
		}
	}
	entries, problems := config.LoadRC([]config.RCFile{{Path: long}, {Path: os.DevNull}, {Path: filepath.Join(dir, "none")}}, config.ReadFile)
	if len(entries) != 0 || len(problems) != 2 || ncerr.KindOf(problems[0]) != ncerr.ErrLimit {
		t.Errorf("want no entries and two problems, the first ErrLimit, got %v, %v", entries, problems)
	}
}

func TestAWSFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  config.Env
		want string
	}{
		"home":     {config.Env{Home: "/h"}, "/h/.aws/config /h/.aws/credentials"},
		"test dir": {config.Env{Home: "/h", Vars: map[string]string{"NC_TEST_AWS_DIR": "/t"}}, "/t/.aws/config /t/.aws/credentials"},
		"config":   {config.Env{Home: "/h", Vars: map[string]string{"AWS_CONFIG_FILE": "/c"}}, "/c /h/.aws/credentials"},
		"both": {
			config.Env{Vars: map[string]string{"AWS_CONFIG_FILE": "/c", "AWS_SHARED_CREDENTIALS_FILE": "/s"}}, "/c /s",
		},
		"nowhere": {config.Env{}, ""},
	} {
		if got := strings.Join(config.AWSFiles(c.env), " "); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}

func TestLoadAWS(t *testing.T) {
	t.Parallel()
	disk := files{
		"/config": `# comment
; another
region = before any section
[default]
region = eu-west-1 # home
output = json
[profile lab]
aws_region = lab-region
s3 =
  endpoint_url = http://nested.example
  region = nested
endpoint_url = http://lab.example:9000
[profile "two words"]
Region=x
[sso-session corp]
sso_region = us-east-1
region = not-a-profile
  indented = in it
[services s]
s3 =
[bare]
[order]
aws_region = second
region = first
aws_region = third
`,
		"/credentials": "[default]\naws_access_key_id = AKIA\naws_secret_access_key = hunter2\n[lab]\nregion = better\n[order]\naws_region = no\n[empty]\nregion =\n",
	}
	got, problems := config.LoadAWS([]string{"/config", "/missing", "/credentials"}, disk.read)
	want := map[string]config.AWSProfile{
		"default": {Region: "eu-west-1"}, "lab": {Region: "better", Endpoint: "http://lab.example:9000"},
		"two words": {Region: "x"}, "bare": {}, "order": {Region: "first"}, "empty": {},
	}
	if len(problems) != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("want %+v\n got %+v, %v", want, got, problems)
	}
	env := &ncurl.Env{Profiles: map[string]ncurl.Profile{}}
	for name, p := range got {
		env.Profiles[name] = ncurl.Profile(p)
	}
	loc, err := ncurl.Parse("s3://b/k#aws.profile=lab", env)
	if err != nil || loc.Endpoint != "http://lab.example:9000" || loc.Region != "better" {
		t.Errorf("got %+v, %v", loc, err)
	}
}

func TestAWSProblems(t *testing.T) {
	t.Parallel()
	disk := files{"/c": "[default\nregion = lost\n[a]\nhunter2\nregion = kept\n", "/no": "forbidden"}
	got, problems := config.LoadAWS([]string{"/c", "/no"}, disk.read)
	if len(got) != 1 || got["a"].Region != "kept" {
		t.Errorf("want only profile a with region kept, got %+v", got)
	}
	if len(problems) != 3 || !strings.Contains(problems[2].Error(), "/no") {
		t.Fatalf("want three problems, the last about /no, got %v", problems)
	}
	expectProblems(t, problems[:2], []string{
		`read configuration "/c:1": invalid argument: the section has no "]"`,
		`read configuration "/c:4": invalid argument: the line is neither a section nor of the form key = value`,
	})
	problems = config.ParseAWS("/c", make([]byte, 1<<16+1), map[string]config.AWSProfile{})
	if len(problems) != 1 || ncerr.KindOf(problems[0]) != ncerr.ErrLimit {
		t.Errorf("a huge file: want one problem of kind ErrLimit, got %v", problems)
	}
}
