package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// campaign is a list of commands and the time during which they may start.
type campaign struct {
	name   string
	budget time.Duration
	atOnce int // number of steps that run concurrently; 0 means 1
	steps  []step
}

// step is one command, which runs in the root of the module.
type step struct {
	name string
	env  []string
	args []string
}

// command returns the step as a shell command.
func (s step) command() string {
	var words []string
	for _, w := range slices.Concat(s.env, s.args) {
		if strings.ContainsAny(w, " ^$|*()") {
			w = "'" + w + "'"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// shares maps each campaign to its share of the time. Steps with a time limit divide
// the share; other steps run to completion.
var shares = map[string]float64{
	"defences": 0.16, "kills": 0.12, "replaced": 0.04, "random": 0.04, "soak": 0.05, "fuzz": 0.11, "race": 0.24, "matrices": 0.11, "bench": 0.13,
}

// pairs lists the campaigns that run two steps at a time. Their steps mostly wait for
// processes or a time limit, or link programs. Fuzzing and soaks use all processors, and
// benchmarks run alone.
var pairs = []string{"defences", "kills", "replaced", "random", "race", "matrices"}

// campaigns returns the campaigns for a number of minutes.
func campaigns(ctx context.Context, seed uint64, minutes float64) ([]campaign, error) {
	budget := func(name string) time.Duration { return time.Duration(shares[name] * minutes * float64(time.Minute)) }
	defences, err := exec.CommandContext(ctx, ".ci/defences", "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the planted defects: %w", err)
	}
	// The two packages that take longest under the race detector come first, so that
	// the others run next to them.
	packages, err := exec.CommandContext(ctx, "go", "list", "./conformance/codecsuite", "./core/plugin/host", "./core/...", "./drivers/...", "./filters/...", "./conformance/...", "./cmd/...").Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	targets, err := fuzzTargets(os.DirFS("."))
	if err != nil {
		return nil, err
	}
	test := func(flags ...string) []string {
		return append([]string{"go", "test", "-count=1", "-timeout=3h"}, flags...)
	}
	seeded := func(i int, env ...string) []string {
		return append(env, "NCZARR_SEED="+strconv.FormatUint(seed+uint64(i), 10)) // i is a loop index, so it is not negative
	}
	steps := map[string][]step{}
	for name := range strings.FieldsSeq(string(defences)) {
		steps["defences"] = append(steps["defences"], step{name: name, args: []string{".ci/defences", name}})
	}
	for i := range 20 { // 1,000 kills in total
		steps["kills"] = append(steps["kills"], step{
			name: fmt.Sprintf("%d-%d", 50*i+1, 50*i+50), env: seeded(i, "NCZARR_KILLS=50"), args: test("-run=^TestKills$", "-v", "./cmd/nczctl"),
		})
	}
	for i, r := range replacements {
		steps["replaced"] = append(steps["replaced"], step{
			name: r.name, env: seeded(i, "NCZARR_REPLACED_EVERY="+r.every), args: test("-run="+r.run, "-v", "./conformance/interop"),
		})
	}
	for i := range 10 { // new cases each time
		for _, r := range randomTests {
			steps["random"] = append(steps["random"], step{
				name: fmt.Sprintf("%s-%d", r.name, i+1), env: seeded(1000*i, r.env...), args: test(r.args...),
			})
		}
	}
	soaks := []string{"TestSoakS3", "TestSoakHTTP"}
	for i, name := range soaks {
		each := budget("soak") / time.Duration(len(soaks))
		steps["soak"] = append(steps["soak"], step{
			name: name, env: seeded(i, "NCZARR_SOAK="+each.Round(time.Second).String()), args: test("-v", "-run=^"+name+"$", "./conformance/remote"),
		})
	}
	// The fuzz targets run for half of the budget, because building them takes about as
	// long as running them.
	each := max(time.Second, (budget("fuzz") / 2 / time.Duration(len(targets))).Round(time.Second))
	for _, t := range targets {
		steps["fuzz"] = append(steps["fuzz"], step{
			name: t.dir + "/" + t.target, env: []string{"GOMEMLIMIT=2GiB"},
			args: []string{"go", "test", "-run=^$", "-fuzz=^" + t.target + "$", "-fuzztime=" + each.String(), "./" + t.dir},
		})
	}
	// Tests of planted defects are skipped under the race detector, because they process
	// many megabytes and would take an hour; a run of all checks covers the same code.
	// The tests of rare codecs in core/plugin/host would take half an hour; other tests
	// cover these codecs in process.
	for path := range strings.FieldsSeq(string(packages)) {
		_, name, _ := strings.Cut(path, "/nczarr/")
		flags, env := []string{"-race"}, []string(nil)
		switch name {
		case "conformance/codecsuite":
			flags = append(flags, "-short", "-skip=Leak|AreCaught$|^TestPlantedDefects$")
		case "core/plugin/host":
			flags, env = append(flags, "-short"), []string{"NCZARR_FULL=1"}
		case "drivers/s3":
			env = []string{"NCZARR_FULL=1"}
		}
		steps["race"] = append(steps["race"], step{name: name, env: env, args: test(append(flags, "./"+name)...)})
	}
	steps["matrices"] = []step{
		{name: "s3", env: []string{"NCZARR_FULL=1"}, args: test("./drivers/s3")},
		{name: "docs", env: []string{"NCZARR_FULL=1"}, args: test("-run=^(TestCommands|TestDriver)$", "./docs", "./docs/examples")},
		{name: "big-archives", env: []string{"NCZARR_BIG=1"}, args: test("-run=^TestLargeMember$", "-v", "./drivers/zip")},
		{name: "conformance", env: []string{"NCZARR_FULL=1"}, args: test("-run=^TestScripts$/^conformance$", "-v", "./cmd/nczctl")},
		{name: "codecs", env: []string{"NCZARR_FULL=1"}, args: test("-run=^(TestBuiltin|TestConformance|TestCodecConformance)$", "./conformance/codecsuite", "./core/plugin/host")},
		{name: "peers", env: []string{"NCZARR_FULL=1"}, args: test("./conformance/interop", "./conformance/corpora")},
		{name: "formats-s3", env: []string{"NCZARR_FULL=1"}, args: []string{"make", "test-s3"}},
	}
	for _, name := range []string{"bench", "bench-open", "bench-plane", "bench-remote"} {
		steps["bench"] = append(steps["bench"], step{name: name, args: []string{"make", name}})
	}
	var all []campaign
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		c := campaign{name: name, budget: budget(name), steps: steps[name]}
		if slices.Contains(pairs, name) {
			c.atOnce = 2
		}
		all = append(all, c)
	}
	return all, nil
}

// replacements lists the tests of kills and power failures while a dataset is replaced.
// every is the interval between the tested calls or requests that change something.
var replacements = []struct{ name, every, run string }{
	{"s3", "1", "^TestReplaced$/^s3$/^alone$"},
	{"s3-beside", "10", "^TestReplaced$/^s3$/^(reader|writer|holder|contained)$"},
	{"file", "10", "^TestReplaced$/^file$/^(alone|contained)$"},
	{"file-beside", "10", "^TestReplaced$/^file$/^(reader|dump|writer|holder)$"},
	{"zip", "10", "^TestReplaced$/^zip$"},
	{"power", "10", "^TestPowerFailure$"},
}

// randomTests lists tests of random cases, with more cases than in a regular run.
var randomTests = []struct {
	name string
	env  []string
	args []string
}{
	{"cdl", []string{"NCZARR_CDL_RANDOM=200", "NCZARR_FULL=1"}, []string{"-run=^TestRandomDifferential$", "./core/cdl"}},
	{"arrays", nil, []string{"-run=^TestRandomArrays$", "./conformance/interop"}},
	{"codecs", nil, []string{"-run=^(TestRegistry|TestLibaec)$", "./filters/builtin", "./filters/szip"}},
	{"properties", []string{"RAPID_CHECKS=1000"}, []string{
		"./core/chunk", "./core/codec/driver", "./core/dtype", "./core/manifest", "./core/ncurl", "./core/dataset", "./core/zarr",
		"./core/zmap/...", "./drivers/zip", "./filters/delta", "./filters/internal/bitio",
	}},
	{"writers", []string{"NCZARR_WRITER_STEPS=10000"}, []string{"-run=^TestSeveralWriters$", "./core/dataset"}}, // 100,000 steps in total
	{"writers-s3", []string{"NCZARR_WRITER_STEPS=1000"}, []string{"-run=^TestSeveralWritersOfS3$", "./conformance/remote"}},
	{"writer-processes", []string{"NCZARR_WRITER_STEPS=10000"}, []string{"-run=^TestProcessesOfDirectories$", "./conformance/writers"}},
	{"writer-processes-s3", []string{"NCZARR_WRITER_STEPS=500"}, []string{"-run=^TestProcessesOfS3$", "./conformance/writers"}},
	{"conformance", []string{"NCZARR_FULL=1"}, []string{"-run=Conformance", "./drivers/...", "./core/zmap/...", "./core/plugin/host", "./filters/..."}},
}

// fuzzTarget is a fuzz function in a package.
type fuzzTarget struct{ dir, target string }

// fuzzTargets returns the fuzz targets of a module.
func fuzzTargets(module fs.FS) ([]fuzzTarget, error) {
	function := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	var out []fuzzTarget
	err := fs.WalkDir(module, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(module, path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			out = append(out, fuzzTarget{filepath.ToSlash(filepath.Dir(path)), string(m[1])})
		}
		return err
	})
	return out, err
}

// sourcesID returns an identifier of the sources: the commit, and a checksum of
// uncommitted changes.
func sourcesID(ctx context.Context) (string, error) {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("get the commit from git: %w", err)
	}
	diff, err := exec.CommandContext(ctx, "git", "diff", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("get the changes from git: %w", err)
	}
	id := string(bytes.TrimSpace(commit))
	if len(diff) > 0 {
		id += fmt.Sprintf("-%08x", crc32.ChecksumIEEE(diff))
	}
	return id, nil
}
