package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/session"
)

// app is what the commands share: where they read and write, and what was
// made of the global flags.
type app struct {
	in       io.Reader
	out, err io.Writer
	data     io.Writer    // like out, for the bytes of datasets: as they are, unless out is a terminal
	bars     *os.File     // the terminal that progress bars are drawn on; nil without one
	flush    func() error // brings what was written to out and data out of the process
	env      *config.Env  // instead of the process's; for tests
	self     plugin.Self  // the right to serve the built-ins from processes

	onlyPlugin string // path of the only plugin that runs; empty for all

	flags   globals
	session *session.Session // made at the first use
}

// globals are the flags of every command.
type globals struct {
	isolation string
	config    string
	logFile   string
	localRC   bool
	trace     bool
	stats     bool
	quiet     bool
	json      bool
	pluginDir []string
	unpinned  bool

	consolidated   consolidatedFlag
	requireSandbox bool
}

// main runs the command line and gives the exit code.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.command()
	root.SetArgs(args)
	root.SetIn(a.in)
	a.sanitise()
	root.SetOut(a.out)
	root.SetErr(a.err)
	began := time.Now()
	err := root.ExecuteContext(ctx)
	ferr := a.flush()
	if ferr != nil && !ncerr.IsContext(err) {
		err = &outputError{ferr}
	}
	a.printStats(time.Since(began))
	if a.session != nil {
		if cerr := a.session.Close(); err == nil {
			err = cerr
		}
	}
	if err == nil {
		return ncerr.ExitOK
	}
	if errors.Is(ferr, syscall.EPIPE) { // the reader has seen enough
		return ncerr.ExitOther
	}
	if ctx.Err() != nil && ncerr.IsContext(err) {
		fmt.Fprintln(a.err, "nczctl: cancelled")
		return ncerr.ExitCancelled
	}
	var said *saidError
	if !errors.As(err, &said) {
		fmt.Fprintf(a.err, "nczctl: %v\n", err)
	}
	return exitCode(err)
}

// sanitise puts a [printable] in front of both outputs. From then on flush
// returns the first error of writing to standard output.
func (a *app) sanitise() {
	a.bars = terminal(a.err)
	a.err = &printable{w: a.err}
	isTerminal := terminal(a.out) != nil
	raw := bufio.NewWriterSize(a.out, 1<<16) // keeps its first error for Flush
	out := &printable{w: raw}
	a.out, a.data = out, raw
	if isTerminal {
		a.data = out
	}
	a.flush = func() error {
		out.flush()
		return raw.Flush()
	}
}

// terminal gives w as a file if it is a terminal, and nil otherwise.
func terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// printStats prints the requests to stores and the work of plugin processes, for
// --stats.
func (a *app) printStats(took time.Duration) {
	if !a.flags.stats {
		return
	}
	fmt.Fprintf(a.err, "took %v\n", took.Round(time.Millisecond))
	if a.session == nil {
		return
	}
	_ = a.session.Stats().Print(a.err) // a failure to write to stderr cannot be reported
	if c := a.session.CacheStats(); c.Hits.Load()+c.Misses.Load() > 0 {
		fmt.Fprintf(a.err, "  cache  %6d hits (%d without asking the store), %d bytes, %d misses, %d damaged, %d not kept\n",
			c.Hits.Load(), c.Trusted.Load(), c.Bytes.Load(), c.Misses.Load(), c.Damaged.Load(), c.Unkept.Load())
	}
	for _, p := range a.session.Host().Plugins() {
		switch {
		case p.Isolation == host.InProcess:
			fmt.Fprintln(a.err, "  drivers and filters ran in this process")
		case p.Calls > 0:
			fmt.Fprintf(a.err, "  plugin %s %s, process %d: %d jobs, %d calls, %d bytes\n", p.Name, p.Serves, p.PID, p.Jobs, p.Calls, p.Bytes)
		}
	}
}

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// outputError is a failure to write the results.
type outputError struct{ err error }

func (e *outputError) Error() string { return "write to standard output: " + cause(e.err).Error() }
func (e *outputError) Unwrap() error { return e.err }

// saidError is an error that has been reported already; only its exit code
// is left to be used.
type saidError struct{ err error }

func (e *saidError) Error() string { return e.err.Error() }
func (e *saidError) Unwrap() error { return e.err }

func exitCode(err error) int {
	var usage *usageError
	if errors.As(err, &usage) {
		return ncerr.ExitUsage
	}
	return ncerr.Exit(err)
}

// command makes the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "nczctl",
		Short: "Read, write, copy and examine NCZarr and Zarr datasets",
		Long: `nczctl works on netCDF data stored as NCZarr or Zarr: in a directory, a zip
archive, or any store that a driver plugin knows. A dataset is named by a plain
path or by a URL such as file:///data/x.zip#mode=nczarr,zip.

Storage drivers and filters run as plugins in processes of their own, unless
--isolation=inproc says otherwise.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          args(oneOf),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.flags.isolation, "isolation", "", "where drivers and filters run: auto, process or inproc (default $NCZARR_ISOLATION, else the configuration's, else auto)")
	f.StringVar(&a.flags.config, "config", "", "configuration `file` (default $NCZARR_CONFIG, else the user's)")
	f.BoolVar(&a.flags.localRC, "allow-local-rc", false, "let the .ncrc of the current directory name servers, proxies, certificates, profiles and logins")
	f.BoolVar(&a.flags.trace, "trace", false, "log every call of drivers and plugins to standard error")
	f.StringVar(&a.flags.logFile, "log-file", "", "append the log to this `file` instead of standard error (default $NCZARR_LOG_FILE)")
	f.BoolVar(&a.flags.stats, "stats", false, "print the time taken, the requests to stores and the work of each plugin process to standard error")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "no progress bars, and no warnings except about plugins without a sandbox")
	f.BoolVar(&a.flags.json, "json", false, "print results as JSON")
	f.StringArrayVar(&a.flags.pluginDir, "plugin-dir", nil, "look for plugins in this `directory` first (may be repeated)")
	f.BoolVar(&a.flags.unpinned, "allow-unpinned", false, "run third-party plugins that the lock file does not pin")
	f.Var(&a.flags.consolidated, "use-consolidated", "read consolidated metadata: auto (where requests are expensive or the URL asks for it), verify (compare it with all documents), trust or ignore")
	f.BoolVar(&a.flags.requireSandbox, "require-sandbox", false, "start no plugin process that this system cannot confine to what it is granted")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	})
	root.AddCommand(a.newDump(), a.newGen(), a.newCopy(), a.newConsolidate(), a.newLs(), a.newSearch(), a.newCat(), a.newZmap(),
		a.newURL(), a.newInfo(), a.newClean(), a.newConformance(), a.newPlugin(), a.newVersion(), newExitCodes())
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil { // cobra's takes any shell for a call for help
		c.Args, c.RunE = args(oneOf), func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	completeHelp(root)
	return root
}

// newHelp is cobra's help command, but that a topic which is not there is an
// error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		Long:  "Print the help of a command, or of one of the additional topics.",
		RunE: func(_ *cobra.Command, list []string) error {
			c, rest, err := root.Find(list)
			if err != nil || len(rest) > 0 {
				return &usageError{fmt.Errorf("no help on %q (see %s --help)", ncurl.Masked(strings.Join(list, " ")), root.Name())}
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// oneOf refuses the argument of a command that has only subcommands: it is
// none of them.
func oneOf(c *cobra.Command, list []string) error {
	if len(list) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", list[0], c.CommandPath())
	c.SuggestionsMinimumDistance = 2 // letters that may differ
	if near := c.SuggestionsFor(list[0]); len(near) > 0 {
		text += fmt.Sprintf(", did you mean %q?", near[0])
	}
	return errors.New(text)
}

// args wraps an argument check so that a failure is a usage error. What it says
// may quote an argument, which may be a URL with a password in it.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		if err := check(c, list); err != nil {
			text := err.Error()
			for _, arg := range list {
				text = strings.ReplaceAll(text, strconv.Quote(arg), strconv.Quote(ncurl.Masked(arg)))
			}
			return &usageError{fmt.Errorf("%s (see %s --help)", text, c.CommandPath())}
		}
		return nil
	}
}

// completeHelp makes a sentence of the summary of each command that has no
// longer description.
func completeHelp(c *cobra.Command) {
	if c.Long == "" {
		c.Long = c.Short + "."
	}
	for _, sub := range c.Commands() {
		completeHelp(sub)
	}
}

// printJSON prints v, indented.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// warn prints a line for people, unless --quiet was given.
func (a *app) warn(format string, args ...any) {
	if !a.flags.quiet {
		fmt.Fprintf(a.err, "nczctl: "+format+"\n", args...)
	}
}

// open opens an existing dataset.
func (a *app) open(ctx context.Context, url string) (*nczarr.Dataset, error) {
	s, err := a.start(ctx, url)
	if err != nil {
		return nil, err
	}
	s.Host().Warm() // nearly every array has codecs
	return nczarr.Open(ctx, url, a.options())
}

// problems prints what was left out of a dataset, and gives the error that
// the command ends with.
func (a *app) problems(list []nczarr.Problem) error {
	if len(list) == 0 {
		return nil
	}
	for _, p := range list {
		fmt.Fprintf(a.err, "nczctl: skipped %q: %v\n", p.Path, p.Err)
	}
	return &saidError{list[0].Err}
}
