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
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/session"
)

// app holds the state that all commands share: the input and output, the global flags
// and the session.
type app struct {
	in       io.Reader
	out, err io.Writer
	data     io.Writer    // output of dataset bytes: escaped only if out is a terminal
	bars     *os.File     // the terminal for progress bars, or nil
	flush    func() error // flushes out and data
	env      *config.Env  // replaces the environment of the process in tests
	self     plugin.Self  // permits the host to run this program as a plugin process

	onlyPlugin string // path of the only plugin that may run; empty means all plugins

	flags   globals
	session *session.Session // nil until start
}

// globals holds the flags that every command accepts.
type globals struct {
	isolation string
	config    string
	logFile   string
	localRC   bool
	trace     bool
	stats     bool
	quiet     bool
	json      bool
	memory    string
	pluginDir []string
	unpinned  bool

	allowPrefix []string
	allowLocal  bool

	consolidated   consolidatedFlag
	requireSandbox bool
}

// main runs the command line and returns the exit code.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.command()
	root.SetArgs(args)
	root.SetIn(a.in)
	a.sanitize()
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
	if errors.Is(ferr, syscall.EPIPE) { // the reader closed the pipe
		return ncerr.ExitOther
	}
	if ctx.Err() != nil && ncerr.IsContext(err) {
		fmt.Fprintln(a.err, "nczctl: canceled")
		return ncerr.ExitCanceled
	}
	var reported *reportedError
	if !errors.As(err, &reported) {
		fmt.Fprintf(a.err, "nczctl: %v\n", err)
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return ncerr.ExitUsage
	}
	return ncerr.Exit(err)
}

// sanitize wraps a.out and a.err in a [printable] and sets a.flush, which returns the
// first error from writing to standard output.
func (a *app) sanitize() {
	a.bars = terminal(a.err)
	a.err = &printable{w: a.err}
	isTerminal := terminal(a.out) != nil
	raw := bufio.NewWriterSize(a.out, 1<<16) // Flush returns its first error
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

// terminal returns w as a file if it is a terminal, and nil otherwise.
func terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// printStats prints the output of --stats: requests to stores, cache use and the
// work of plugin processes.
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
		fmt.Fprintf(a.err, "  cache  %6d hits (%d without a request to the store), %d bytes, %d misses, %d damaged, %d not stored\n",
			c.Hits.Load(), c.Unverified.Load(), c.Bytes.Load(), c.Misses.Load(), c.Damaged.Load(), c.WriteErrors.Load())
	}
	for _, p := range a.session.Host().Plugins() {
		switch {
		case p.Isolation == host.InProcess:
			fmt.Fprintln(a.err, "  drivers and filters ran in the nczctl process")
		case p.Calls > 0:
			fmt.Fprintf(a.err, "  plugin %s %s, process %d: %d jobs, %d calls, %d bytes\n", p.Name, p.Serves, p.PID, p.Jobs, p.Calls, p.Bytes)
		}
	}
}

// usageError reports a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// outputError reports a failure to write to standard output.
type outputError struct{ err error }

func (e *outputError) Error() string { return "write to standard output: " + cause(e.err).Error() }
func (e *outputError) Unwrap() error { return e.err }

// reportedError is an error that the command has already printed. The error determines
// only the exit code.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }
func (e *reportedError) Unwrap() error { return e.err }

// command returns the root command with all subcommands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "nczctl",
		Short: "Read, write, copy and examine NCZarr and Zarr datasets",
		Long: `nczctl works on netCDF data stored as NCZarr or Zarr: in a directory, a zip
archive, or any store that a driver plugin supports. The name of a dataset is a
plain path or a URL such as file:///data/x.zip#mode=nczarr,zip.

Storage drivers and filters run in separate plugin processes unless
--isolation=inproc is given.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          args(onlySubcommands),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.flags.isolation, "isolation", "", "where drivers and filters run: auto, process or inproc (default $NCZARR_ISOLATION, else the configuration file, else auto)")
	f.StringVar(&a.flags.config, "config", "", "configuration `file`, read after the user's configuration file and the file named by $NCZARR_CONFIG")
	f.BoolVar(&a.flags.localRC, "allow-local-rc", false, "let the .ncrc of the current directory set servers, proxies, certificates, profiles and logins")
	f.BoolVar(&a.flags.trace, "trace", false, "log every call to drivers and plugins to standard error")
	f.StringVar(&a.flags.logFile, "log-file", "", "append the log to this `file` instead of writing it to standard error (default $NCZARR_LOG_FILE)")
	f.BoolVar(&a.flags.stats, "stats", false, "print the elapsed time, the requests to stores and the work of each plugin process to standard error")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "print no progress bars, and no warnings except about plugins without a sandbox")
	f.BoolVar(&a.flags.json, "json", false, "print results as JSON")
	f.StringVar(&a.flags.memory, "memory", "", "maximum working memory of the command, such as 256M or 1GiB, without the memory that plugins allocate (default: limits.memory in the configuration file)")
	f.StringArrayVar(&a.flags.pluginDir, "plugin-dir", nil, "look for plugins in this `directory` first (may be repeated)")
	f.BoolVar(&a.flags.unpinned, "allow-unpinned", false, "run third-party plugins that the lock file does not pin")
	f.StringArrayVar(&a.flags.allowPrefix, "allow-prefix", nil, "let the references of a dataset read objects below this `URL` or path; requests are anonymous unless the URL selects credentials, as with #aws.profile=NAME (may be repeated)")
	f.BoolVar(&a.flags.allowLocal, "allow-local", false, "let the hosts of --allow-prefix have loopback, link-local and private addresses")
	f.Var(&a.flags.consolidated, "use-consolidated", "`how` to use consolidated metadata: auto (read it if requests are slow or the URL requests it), verify (compare it with all documents), trust or ignore")
	f.BoolVar(&a.flags.requireSandbox, "require-sandbox", false, "refuse to start plugin processes that this system cannot confine to their granted resources")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	})
	root.AddCommand(a.newDump(), a.newGen(), a.newCopy(), a.newConsolidate(), a.newMigrate(), a.newLs(), a.newSearch(), a.newCat(), a.newZmap(),
		a.newURL(), a.newInfo(), a.newClean(), a.newRepair(), a.newConformance(), a.newPlugin(), a.newVersion(), newExitCodes())
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultCompletionCmd()
	// By default, cobra prints the help for an unknown shell and returns no error.
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Args, c.RunE = args(onlySubcommands), func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	completeHelp(root)
	return root
}

// newHelp returns a help command like cobra's, except that an unknown topic is an
// error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		Long:  "Print the help of a command, or of one of the additional topics.",
		RunE: func(_ *cobra.Command, list []string) error {
			c, rest, err := root.Find(list)
			if err != nil || len(rest) > 0 {
				return &usageError{fmt.Errorf("no help topic %q (see %s --help)", ncurl.Masked(strings.Join(list, " ")), root.Name())}
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// onlySubcommands rejects any argument of a command that has only subcommands. Such an
// argument is always an unknown subcommand.
func onlySubcommands(c *cobra.Command, list []string) error {
	if len(list) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", list[0], c.CommandPath())
	c.SuggestionsMinimumDistance = 2 // the largest edit distance of a suggestion
	if similar := c.SuggestionsFor(list[0]); len(similar) > 0 {
		text += fmt.Sprintf(", did you mean %q?", similar[0])
	}
	return errors.New(text)
}

// args wraps check so that it fails with a usageError. It masks the passwords of URLs in
// the message of check.
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

// completeHelp sets missing long descriptions of c and its subcommands to their
// summaries.
func completeHelp(c *cobra.Command) {
	if c.Long == "" {
		c.Long = c.Short + "."
	}
	for _, sub := range c.Commands() {
		completeHelp(sub)
	}
}

// printJSON prints v as indented JSON.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// warn prints a line to standard error unless --quiet is set.
func (a *app) warn(format string, args ...any) {
	if !a.flags.quiet {
		fmt.Fprintf(a.err, "nczctl: "+format+"\n", args...)
	}
}

// open opens an existing dataset.
func (a *app) open(ctx context.Context, url string) (*dataset.Dataset, error) {
	if _, err := a.start(ctx, url); err != nil {
		return nil, err
	}
	return open.Open(ctx, url, a.options())
}

// openWithFilters is open for a command that uses the codecs of arrays. Nearly every array
// has codecs, so it starts the process of the filters while the driver opens the store.
func (a *app) openWithFilters(ctx context.Context, url string) (*dataset.Dataset, error) {
	s, err := a.start(ctx, url)
	if err != nil {
		return nil, err
	}
	s.Host().StartFilters()
	return open.Open(ctx, url, a.options())
}

// problems prints the parts of a dataset that were skipped. It returns the first error as
// a reportedError, or nil if list is empty.
func (a *app) problems(list []dataset.Problem) error {
	if len(list) == 0 {
		return nil
	}
	for _, p := range list {
		fmt.Fprintf(a.err, "nczctl: skipped %q: %v\n", p.Path, p.Err)
	}
	return &reportedError{list[0].Err}
}
