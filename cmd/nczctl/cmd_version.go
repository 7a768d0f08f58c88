package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
)

// version is the version of the program. The build sets it with -ldflags -X
// main.version=VERSION.
var version = "devel" // a variable because the linker sets it

// recordedVersion returns version. If the build did not set it, as with go install, it
// returns the version of the main module that the go command recorded.
func recordedVersion(build *debug.BuildInfo) string {
	if version != "devel" || build.Main.Version == "" || build.Main.Version == "(devel)" {
		return version
	}
	return build.Main.Version
}

// versionInfo is the output of "nczctl version --json".
type versionInfo struct {
	Version   string `json:"version"`
	Revision  string `json:"revision,omitempty"`
	Go        string `json:"go"`
	Platform  string `json:"platform"`
	Protocol  string `json:"plugin_protocol"`
	Isolation string `json:"isolation"`
}

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the plugin protocol and the isolation of plugins",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.start(c.Context(), "")
			if err != nil {
				return err
			}
			info := versionInfo{
				Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
				Protocol: plugin.ProtocolVersion(), Isolation: string(s.HostOptions().Isolation),
			}
			if build, ok := debug.ReadBuildInfo(); ok {
				for _, s := range build.Settings {
					if s.Key == "vcs.revision" {
						info.Revision = s.Value
					}
				}
			}
			if a.flags.json {
				return a.printJSON(info)
			}
			fmt.Fprintf(a.out, "nczctl %s\n%s %s\nplugin protocol %s\nisolation %s\n", info.Version, info.Go, info.Platform, info.Protocol, info.Isolation)
			return nil
		},
	}
}

// newExitCodes returns the help topic exit-codes, which is a command without a run
// function.
func newExitCodes() *cobra.Command {
	text := "The exit codes of nczctl:\n\n    0  success\n    1  any other failure\n    2  wrong usage\n"
	byCode := make(map[int]string)
	var order []int
	for _, r := range ncerr.Table() {
		if r.Exit <= ncerr.ExitUsage {
			continue
		}
		if byCode[r.Exit] == "" {
			order = append(order, r.Exit)
		} else {
			byCode[r.Exit] += "; "
		}
		byCode[r.Exit] += r.Meaning
	}
	for code := ncerr.ExitUsage + 1; code < ncerr.ExitCanceled; code++ {
		for _, c := range order {
			if c == code {
				text += fmt.Sprintf("  %3d  %s\n", code, byCode[code])
			}
		}
	}
	text += fmt.Sprintf("  %3d  canceled by a signal\n", ncerr.ExitCanceled)
	return &cobra.Command{Use: "exit-codes", Short: "Meaning of the exit codes", Long: text}
}
