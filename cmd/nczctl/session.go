package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/session"
	"github.com/seed-695719ce/nczarr/core/store"
)

// start returns the session and creates it in the first call. url is the dataset of the
// command; a log key in its fragment enables logging.
func (a *app) start(_ context.Context, url string) (*session.Session, error) {
	if a.session != nil {
		return a.session, nil
	}
	memory, err := a.flags.memoryBytes()
	if err != nil {
		return nil, err
	}
	s, err := session.New(&session.Options{
		Memory: memory,
		Self:   a.self, Config: a.flags.config, Isolation: a.flags.isolation,
		PluginDirs: a.flags.pluginDir, OnlyPlugin: a.onlyPlugin, AllowUnpinned: a.flags.unpinned,
		RequireSandbox: a.flags.requireSandbox, LocalRC: a.flags.localRC,
		Trace: a.flags.trace, LogFile: a.flags.logFile, URL: url, LogOutput: a.err, Logger: slog.New(&warnings{a: a}),
		Warn: func(err error) { a.warn("%v", err) }, Env: a.env,
	})
	if file, ok := err.(*fs.PathError); ok { //nolint:errorlint // only an unwrapped PathError lacks a kind
		err = &inputError{file.Op, file.Path, file.Err}
	}
	if err != nil {
		return nil, err
	}
	a.session = s
	return s, nil
}

// minMemory is the smallest value of --memory in bytes. A smaller value is probably
// a number without its unit.
const minMemory = 64 << 10

// memoryBytes returns the value of --memory in bytes, or 0 if it is not set.
func (g *globals) memoryBytes() (int64, error) {
	if g.memory == "" {
		return 0, nil
	}
	size, err := config.ParseSize(g.memory)
	if err == nil && size < minMemory {
		err = fmt.Errorf("%s is less than the minimum of %s", size, config.Size(minMemory))
	}
	if err != nil {
		return 0, &usageError{fmt.Errorf("--memory: %w", err)}
	}
	return int64(size), nil
}

// options returns the options for opening a dataset.
func (a *app) options() *dataset.Options {
	o := a.session.Options()
	o.SingleWriter, o.UseConsolidated = true, a.flags.consolidated.use
	o.References.AllowLocal = a.flags.allowLocal
	for _, url := range a.flags.allowPrefix {
		o.References.Allow = append(o.References.Allow, store.Prefix{URL: url})
	}
	return o
}

// warnings is the log handler that is used if logging is off. It prints warnings as plain
// lines and drops all other records.
type warnings struct {
	slog.Handler
	a     *app
	attrs []slog.Attr
}

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && !w.a.flags.quiet || l >= host.LevelAlert
}

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "skipping a part of the dataset" { // the command reports these as errors
		return nil
	}
	text := "warning: " + r.Message
	add := func(at slog.Attr) bool {
		text += " " + at.Key + "=" + strconv.Quote(at.Value.String())
		return true
	}
	for _, at := range w.attrs {
		add(at)
	}
	r.Attrs(add)
	if r.Level >= host.LevelAlert {
		fmt.Fprintln(w.a.err, "nczctl: "+text) // printed even with --quiet
		return nil
	}
	w.a.warn("%s", text)
	return nil
}

func (w *warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &warnings{a: w.a, attrs: append(w.attrs[:len(w.attrs):len(w.attrs)], attrs...)}
}

func (w *warnings) WithGroup(string) slog.Handler { return w }
