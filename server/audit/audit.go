// Package audit writes who changed what to a file: rules, settings, members, and what was reset or flushed. A change has two lines of JSON, one before it is
// made and one when it has ended, so that a change that cannot be written can be refused before it is made.
package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/internal/linefile"
	"limitdb/internal/origin"
)

// Options configures a Log. Path and Strict must be set.
type Options struct {
	Path string
	// MaxBytes bounds the file and the one before it together.
	MaxBytes int64
	// Strict reports whether Begin fails if it cannot write.
	Strict func() bool
	// Log receives failures. Nil means nowhere.
	Log *slog.Logger
}

// A Log is the file of changes. Any goroutine may call its methods; a nil Log writes nothing.
type Log struct {
	o               Options
	written, failed atomic.Uint64 // lines

	mu      sync.Mutex // guards all below
	file    linefile.File
	last    int64 // the id of the last change
	failing bool  // the last line was not written
}

// Open opens the file.
func Open(o Options) (*Log, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{o: o, file: linefile.File{Name: "audit-log", Path: o.Path, MaxBytes: o.MaxBytes}}
	return l, l.Reopen()
}

// Reopen opens the file again, for example after it was moved away.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Open()
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// Counts returns how many lines are in the file, and how many could not be written.
func (l *Log) Counts() (written, failed uint64) { return l.written.Load(), l.failed.Load() }

// A Change is one that is being made.
type Change struct {
	log  *Log
	id   int64
	args []byte // as the line has them
	view func() any
}

// Is reports whether the change is that of these arguments, which have no secrets.
func (c *Change) Is(args [][]byte) bool { return bytes.Equal(c.args, appendArgs(nil, args)) }

// What describes a change that is to be made.
type What struct {
	From *origin.Origin
	// Way is how it came: a client's own command (resp), http, exec, script, signal or file.
	Way string
	// Command is its full name, and Args are its arguments without secrets.
	Command string
	Args    [][]byte
	// View returns what it will change as it is now, for JSON; nil: there is nothing to show.
	View func() any
}

// Begin writes that a change is to be made at a time, in ns of Unix time. The error says why that could not be written; it is nil if the log is
// not strict.
func (l *Log) Begin(now int64, w *What) (*Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(l.last+1, now/1000)
	c := &Change{l, l.last, appendArgs(nil, w.Args), w.View}
	b := c.head(now)
	b = text(append(b, `,"user":`...), w.From.User)
	b = text(append(b, `,"addr":`...), w.From.Addr)
	b = text(append(b, `,"way":`...), w.Way)
	b = text(append(b, `,"command":`...), w.Command)
	b = append(append(b, `,"args":`...), c.args...)
	b = c.appendView(b, `,"before":`)
	if err := l.write(append(b, "}\n"...)); err != nil && l.o.Strict() {
		return nil, err
	}
	return c, nil
}

// End writes how the change has ended at a time: with OK or an error.
func (c *Change) End(now int64, result string) {
	b := text(append(c.head(now), `,"result":`...), result)
	b = append(c.appendView(b, `,"after":`), "}\n"...)
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	_ = c.log.write(b) // it is counted and logged
}

// head begins a line of the change.
func (c *Change) head(now int64) []byte {
	b := strconv.AppendInt([]byte(`{"id":`), c.id, 10)
	b = append(b, `,"time":"`...)
	return append(time.Unix(0, now).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z"), '"')
}

func text(b []byte, s string) []byte { return linefile.AppendString(b, []byte(s)) }

// Bounds on what a line has of arguments.
const (
	maxArg  = 4 << 10
	maxArgs = 64 << 10
)

// appendArgs appends arguments, cut to the bounds of a line.
func appendArgs(b []byte, args [][]byte) []byte {
	b = append(b, '[')
	for i, start := 0, len(b); i < len(args); i++ {
		if i > 0 {
			b = append(b, ',')
		}
		if len(b)-start > maxArgs {
			b = text(b, "... ("+strconv.Itoa(len(args)-i)+" more arguments)")
			break
		}
		arg := args[i]
		if more := len(arg) - maxArg; more > 0 {
			arg = append(arg[:maxArg:maxArg], "... ("+strconv.Itoa(more)+" more bytes)"...)
		}
		b = linefile.AppendString(b, arg)
	}
	return append(b, ']')
}

// appendView appends what the change concerns, as it is now, under a name.
func (c *Change) appendView(b []byte, name string) []byte {
	if c.view == nil {
		return b
	}
	v, err := json.Marshal(c.view())
	if err != nil {
		v, _ = json.Marshal(err.Error())
	}
	return append(append(b, name...), v...)
}

// write writes a line. The lock is held.
func (l *Log) write(line []byte) (err error) {
	defer func() {
		if err == nil {
			l.written.Add(1)
		} else if l.failed.Add(1); !l.failing {
			l.o.Log.Error("a change is not in the audit log", "err", err)
		}
		l.failing = err != nil
	}()
	if !l.file.IsOpen() {
		err = l.file.Open()
	} else if l.file.Full(0, len(line)) {
		err = l.file.Turn()
	}
	if err == nil {
		_, err = l.file.Write(line)
	}
	return err
}
