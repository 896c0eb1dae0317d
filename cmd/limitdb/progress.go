package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar on a terminal that shows how much of some files has been read. It appears only if that
// takes long.
type progress struct {
	out   io.Writer // nil means no bar
	doing string
	total int64 // bytes; -1 if unknown
	read  int64
	since time.Time
	bar   *progressbar.ProgressBar
}

// patience is the time after which the bar appears.
const patience = 500 * time.Millisecond

func newProgress(out io.Writer, doing string, files []string, quiet bool) *progress {
	p := &progress{doing: doing, since: time.Now()}
	if f, ok := out.(*os.File); ok && !quiet && term.IsTerminal(int(f.Fd())) {
		p.out = out
	}
	for _, name := range files {
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() {
			p.total = -1
			break
		}
		p.total += st.Size()
	}
	return p
}

// reader returns a reader that counts what is read from r.
func (p *progress) reader(r io.Reader) io.Reader {
	if p.out == nil {
		return r
	}
	return &progressReader{r, p}
}

type progressReader struct {
	io.Reader
	progress *progress
}

func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.progress.add(n)
	return n, err
}

func (p *progress) add(n int) { p.set(p.read+int64(n), p.total) }

// set sets how much has been read, and of how much.
func (p *progress) set(read, total int64) {
	p.read, p.total = read, total
	if p.out == nil {
		return
	}
	if p.bar == nil {
		if time.Since(p.since) < patience {
			return
		}
		p.bar = progressbar.NewOptions64(p.total,
			progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(p.doing),
			progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	}
	// If the bar cannot be drawn, continue without it.
	_ = p.bar.Set64(min(p.read, max(p.total, p.read)))
}

// close removes the bar; further reading shows it again.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
		p.bar = nil
	}
}
