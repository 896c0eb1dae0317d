// Package decisionlog writes decisions to a file, one JSON object a line, in the form that limitdb simulate
// reads back. It logs all decisions of some callers rather than some decisions of all, since a simulation
// needs everything that a caller asked for.
package decisionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
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
}

// Log is a file of decisions. Any goroutine may call its methods, except Run.
type Log struct {
	o                Options
	lines            chan []byte  // sampled decisions that are not yet written
	queued           atomic.Int64 // bytes of lines
	written, dropped atomic.Uint64
	mu               sync.Mutex // guards all below
	file             *os.File
	buf              []byte // lines that are not yet in the file
	size             int64  // of the file, with buf
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
	l := &Log{o: o, lines: make(chan []byte, waiting)}
	return l, l.Reopen()
}

// Reopen opens the file again, for example after it was moved away.
func (l *Log) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reopen()
}

func (l *Log) reopen() error {
	f, err := os.OpenFile(l.o.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("decision-log: %w", err)
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("decision-log: %s is not a regular file", l.o.Path), err, f.Close())
	}
	l.close()
	l.file, l.size = f, st.Size()
	return nil
}

// close closes the file, if it is open. The caller holds mu.
func (l *Log) close() {
	if l.file == nil {
		return
	}
	if err := errors.Join(l.flush(), l.file.Close()); err != nil {
		l.trouble(err)
	}
	l.file = nil
}

// flush writes the buffered lines to the file, and counts them. If the file takes only a part, flush drops the
// other lines, and cuts off what the file has of one of them. The caller holds mu.
func (l *Log) flush() error {
	n, err := l.file.Write(l.buf)
	n = bytes.LastIndexByte(l.buf[:n], '\n') + 1
	written := bytes.Count(l.buf[:n], []byte("\n"))
	l.written.Add(uint64(written))
	l.dropped.Add(uint64(bytes.Count(l.buf, []byte("\n")) - written))
	if err != nil {
		err = errors.Join(err, l.file.Truncate(l.size-int64(len(l.buf)-n)))
	}
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
	line := d.line()
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
	if l.file == nil {
		flush = l.reopen
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
	if l.file != nil {
		_ = l.file.Close() // its error is that of the write
		l.file = nil
	}
}

// bufferSize is how many bytes of lines are written at once.
const bufferSize = 64 << 10

// write writes a line, and begins a new file when this one is full.
func (l *Log) write(line []byte) {
	l.queued.Add(-int64(len(line)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size > 0 && l.size+int64(len(line)) > l.o.MaxBytes/2 {
		l.close()
		err := os.Rename(l.o.Path, l.o.Path+".1")
		if err == nil {
			err = l.reopen()
		}
		if err != nil {
			l.trouble(err)
		}
	}
	if l.file == nil {
		l.dropped.Add(1)
		return
	}
	l.buf, l.size = append(l.buf, line...), l.size+int64(len(line))
	if len(l.buf) >= bufferSize {
		if err := l.flush(); err != nil {
			l.fail(err)
		}
	}
}

// line returns the decision as a line of JSON.
func (d *Decision) line() []byte {
	b := make([]byte, 0, 112+len(d.Key))
	b = append(b, `{"time":`...)
	b = strconv.AppendInt(b, d.Time, 10)
	b = append(b, `,"key":`...)
	b = appendString(b, d.Key)
	b = append(b, `,"cost":`...)
	b = strconv.AppendInt(b, d.Cost, 10)
	b = append(b, `,"limited":`...)
	b = strconv.AppendBool(b, d.Limited)
	b = append(b, `,"limit":`...)
	b = strconv.AppendInt(b, d.Limit, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, d.Remaining, 10)
	if d.Rule != "" {
		b = append(b, `,"rule":`...)
		b = appendString(b, []byte(d.Rule))
	}
	return append(b, "}\n"...)
}

// appendString appends a key as a JSON string. A byte that is not UTF-8 is written \xff, and a backslash \\,
// so that different keys stay different.
func appendString(b, key []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for len(key) > 0 {
		r, n := utf8.DecodeRune(key)
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(b, `\\x`...)
			b = append(b, hex[key[0]>>4], hex[key[0]&15])
		case r == '\\':
			b = append(b, `\\\\`...)
		case r == '"':
			b = append(b, `\"`...)
		case r < ' ' || r == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default:
			b = append(b, key[:n]...)
		}
		key = key[n:]
	}
	return append(b, '"')
}
