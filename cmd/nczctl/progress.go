package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a progress bar on a terminal.
type progress struct {
	bar   *progressbar.ProgressBar
	total int64
	title string
	a     *app
	on    bool
}

// progress returns a progress bar on standard error. It draws nothing if standard
// error is not a terminal or if --quiet or --trace is set.
func (a *app) progress(title string) *progress {
	return &progress{title: title, a: a, on: a.bars != nil && !a.flags.quiet && !a.flags.trace}
}

// set draws the bar for done of total bytes.
func (p *progress) set(done, total int64) {
	if !p.on {
		return
	}
	if p.bar == nil || p.total != total {
		p.total = total
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.a.bars), progressbar.OptionSetDescription(p.title),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set64(done) // failures to draw the bar are ignored
}

// done clears the bar.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
