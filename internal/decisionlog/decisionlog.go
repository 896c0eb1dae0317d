// Package decisionlog writes decisions to a file, one JSON object a line, in the form that limitdb simulate
// reads back. It logs all decisions of some callers rather than some decisions of all, since a simulation
// needs everything that a caller asked for.
package decisionlog

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"limitdb/internal/linefile"
)

// Options configures a Log. Path must be set.
type Options struct {
	// Path is the file. When it is full, it is renamed to Path.1, which replaces an earlier one.
	Path string
	// MaxBytes bounds the two files together.
	MaxBytes int64
	// OneIn returns n if the callers to log are one in n. It is called for each decision. Nil means all callers.
	OneIn func() int64
	// Log receives failures. Nil means nowhere.
	Log *slog.Logger
}

// Decision is a decision to log.
type Decision struct {
	// Time is in Unix ns.
	Time int64
	// Key identifies the caller. Offer copies it.
	Key []byte
	// Cost is how much was asked for.
	Cost int64
	// Limited reports whether it was denied. Limit is the most that can be taken at once, Remaining what is left.
	Limited          bool
	Limit, Remaining int64
	// Rule is the rule whose limit was asked, as namespace/name; "" for a limit that came with the request.
	Rule string
	// Held is the id under which the cost is held, nil if it is not, Until when its time is over, in Unix ns, and Returns whether it goes back then.
	Held    []byte
	Until   int64
	Returns bool
}

// Log is a file of decisions. Any goroutine may call its methods, except Run.
type Log struct {
	o                Options
	lines            chan []byte  // sampled decisions that are not yet written
	queued           atomic.Int64 // bytes of lines
	written, dropped atomic.Uint64
	mu               sync.Mutex // guards all below
	file             linefile.File
	buf              []byte // lines that are not yet in the file
	failed           bool   // the last write or opening failed
}

// waiting is how many decisions may wait to be written, and waitingBytes how many bytes of these. More are dropped, and
// counted.
const (
	waiting      = 4096
	waitingBytes = 4 << 20
)

// Open opens the file. Nothing is written before Run.
func Open(o Options) (*Log, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{o: o, lines: make(chan []byte, waiting), file: linefile.File{Name: "decision-log", Path: o.Path, MaxBytes: o.MaxBytes}}
	return l, l.Reopen()
}

// Reopen opens the file again, for example after it was moved away.
func (l *Log) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	return errors.Join(err, l.file.Open())
}

// close closes the file, if it is open. The caller holds mu.
func (l *Log) close() {
	if err := errors.Join(l.flush(), l.file.Close()); err != nil {
		l.trouble(err)
	}
}

// flush writes the buffered lines to the file, if it is open, and counts them. If the file takes only a part, flush drops the
// other lines. The caller holds mu.
func (l *Log) flush() error {
	if !l.file.IsOpen() {
		return nil
	}
	whole, err := l.file.Write(l.buf)
	written := bytes.Count(l.buf[:whole], []byte("\n"))
	l.written.Add(uint64(written))
	l.dropped.Add(uint64(bytes.Count(l.buf, []byte("\n")) - written))
	l.buf = l.buf[:0]
	return err
}

// trouble reports the first of a series of failures. The caller holds mu.
func (l *Log) trouble(err error) {
	if !l.failed {
		l.o.Log.Error("decisions cannot be logged", "err", err)
	}
	l.failed = true
}

// Wants reports whether decisions on a key are logged.
func (l *Log) Wants(key []byte) bool {
	if l.o.OneIn == nil {
		return true
	}
	n := l.o.OneIn()
	return n <= 1 || xxh3.Hash(key)%uint64(n) == 0
}

// Offer logs a decision, if its caller is among those that are logged. It never waits: while too many
// decisions are not yet written, it drops d and counts it.
func (l *Log) Offer(d *Decision) {
	if !l.Wants(d.Key) {
		return
	}
	l.offer(d.line())
}

// How says what has become of a hold.
type How uint8

// What becomes of a hold.
const (
	Committed How = iota
	Cancelled
	GoneBack // because its time was over; a commit may follow
)

func (h How) String() string { return [...]string{"commit", "cancel", "return"}[h] }

// Settlement is the settlement of a hold, to log.
type Settlement struct {
	// Time is in Unix ns.
	Time int64
	// Key identifies the caller, and ID the hold.
	Key, ID []byte
	// How is what has become of it.
	How How
	// Estimate is what was held, and Actual what it has cost.
	Estimate, Actual int64
	// Charged is how much more was taken in the end, or less than 0 for what went back, and Over how much of that was beyond the limit.
	Charged, Over int64
	// Rule is the rule whose limit was held, as namespace/name; "" for a limit that came with the request.
	Rule string
}

// Settle logs the settlement of a hold, as Offer does.
func (l *Log) Settle(s *Settlement) {
	if l.Wants(s.Key) {
		l.offer(s.line())
	}
}

// offer has Run write a line.
func (l *Log) offer(line []byte) {
	if l.queued.Add(int64(len(line))) <= waitingBytes {
		select {
		case l.lines <- line:
			return
		default:
		}
	}
	l.queued.Add(-int64(len(line)))
	l.Drop()
}

// Drop counts a decision that could not be offered.
func (l *Log) Drop() { l.dropped.Add(1) }

// Counts returns how many decisions are in the file, and how many were dropped.
func (l *Log) Counts() (written, dropped uint64) { return l.written.Load(), l.dropped.Load() }

// Run writes what Offer takes until ctx ends, and then the rest.
func (l *Log) Run(ctx context.Context) {
	flush := time.NewTicker(time.Second)
	defer flush.Stop()
	for {
		select {
		case line := <-l.lines:
			l.write(line)
		case <-flush.C:
			l.Flush()
		case <-ctx.Done():
			for len(l.lines) > 0 {
				l.write(<-l.lines)
			}
			l.mu.Lock()
			l.close()
			l.mu.Unlock()
			return
		}
	}
}

// Flush hands the lines written so far to the system. If the file could not be written, Flush tries again.
func (l *Log) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	flush := l.flush
	if !l.file.IsOpen() {
		flush = l.file.Open
	}
	if err := flush(); err != nil {
		l.fail(err)
		return
	}
	l.failed = false
}

// fail reports a failure and closes the file until the next Flush. The caller holds mu.
func (l *Log) fail(err error) {
	l.trouble(err)
	_ = l.file.Close() // its error is that of the write
}

// bufferSize is how many bytes of lines are written at once.
const bufferSize = 64 << 10

// write writes a line, and begins a new file when this one is full.
func (l *Log) write(line []byte) {
	l.queued.Add(-int64(len(line)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file.IsOpen() && l.file.Full(len(l.buf), len(line)) {
		l.close()
		if err := l.file.Turn(); err != nil {
			l.trouble(err)
		}
	}
	if !l.file.IsOpen() {
		l.dropped.Add(1)
		return
	}
	l.buf = append(l.buf, line...)
	if len(l.buf) >= bufferSize {
		if err := l.flush(); err != nil {
			l.fail(err)
		}
	}
}

// line returns the settlement as a line of JSON.
func (s *Settlement) line() []byte {
	b := make([]byte, 0, 160+len(s.Key)+len(s.ID))
	b = append(b, `{"time":`...)
	b = strconv.AppendInt(b, s.Time, 10)
	b = append(b, `,"key":`...)
	b = linefile.AppendString(b, s.Key)
	b = append(append(append(b, `,"settled":"`...), s.How.String()...), `","id":`...)
	b = linefile.AppendString(b, s.ID)
	for _, of := range [...]struct {
		name string
		n    int64
	}{{"estimate", s.Estimate}, {"actual", s.Actual}, {"charged", s.Charged}, {"over", s.Over}} {
		b = append(append(append(b, `,"`...), of.name...), `":`...)
		b = strconv.AppendInt(b, of.n, 10)
	}
	if s.Rule != "" {
		b = append(b, `,"rule":`...)
		b = linefile.AppendString(b, []byte(s.Rule))
	}
	return append(b, "}\n"...)
}

// line returns the decision as a line of JSON.
func (d *Decision) line() []byte {
	b := make([]byte, 0, 112+len(d.Key))
	b = append(b, `{"time":`...)
	b = strconv.AppendInt(b, d.Time, 10)
	b = append(b, `,"key":`...)
	b = linefile.AppendString(b, d.Key)
	b = append(b, `,"cost":`...)
	b = strconv.AppendInt(b, d.Cost, 10)
	b = append(b, `,"limited":`...)
	b = strconv.AppendBool(b, d.Limited)
	b = append(b, `,"limit":`...)
	b = strconv.AppendInt(b, d.Limit, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, d.Remaining, 10)
	if d.Held != nil {
		b = append(b, `,"held":`...)
		b = linefile.AppendString(b, d.Held)
		b = append(b, `,"until":`...)
		b = strconv.AppendInt(b, d.Until, 10)
		b = append(b, `,"on_expire":"`...)
		if d.Returns {
			b = append(b, `return"`...)
		} else {
			b = append(b, `keep"`...)
		}
	}
	if d.Rule != "" {
		b = append(b, `,"rule":`...)
		b = linefile.AppendString(b, []byte(d.Rule))
	}
	return append(b, "}\n"...)
}
