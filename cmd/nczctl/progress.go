package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far long work has come, on a terminal only.
type progress struct {
	bar   *progressbar.ProgressBar
	total int64
	title string
	a     *app
	on    bool
}

// progress makes a bar on standard error when that is a terminal and neither
// --quiet nor --trace was given.
func (a *app) progress(title string) *progress {
	return &progress{title: title, a: a, on: a.bars != nil && !a.flags.quiet && !a.flags.trace}
}

// set tells how many bytes of how many are done.
func (p *progress) set(done, total int64) {
	if !p.on {
		return
	}
	if p.bar == nil || p.total != total {
		p.total = total
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.a.bars), progressbar.OptionSetDescription(p.title),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn is no failure
}

// done takes the bar away.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
