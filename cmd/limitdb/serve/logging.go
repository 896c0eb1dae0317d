package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"limitdb/config"
	"limitdb/internal/clock"
	"limitdb/limit"
	"limitdb/server"
)

// logOutput writes the log to standard error or to a file that can be reopened.
type logOutput struct {
	set   *config.Settings
	level slog.LevelVar
	mu    sync.Mutex // guards file and lost
	file  *os.File
	lost  int // number of lines that were dropped because nothing read them
}

func newLogOutput(set *config.Settings) (*logOutput, error) {
	l := &logOutput{set: set, file: os.Stderr}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	return l, l.levelChanged()
}

// reopen opens the log file again by its name, so that it can be rotated: move it away and send SIGHUP.
func (l *logOutput) reopen() error {
	path := l.set.LogFile.Get()
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("logfile: %w", err)
	}
	l.mu.Lock()
	old := l.file
	l.file = f
	l.mu.Unlock()
	if old != os.Stderr {
		return old.Close()
	}
	return nil
}

func (l *logOutput) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != os.Stderr {
		l.file.Close()
	}
}

// pipeBuf is how many bytes a writable pipe or terminal takes without waiting.
const pipeBuf = 4096

// Write is for the log handler. It never waits, because an event loop may be the caller and the reader of the
// log may have stopped. If nothing takes a line, the line is dropped, and the next line comes after a count
// of the dropped ones.
func (l *logOutput) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 {
		told := fmt.Appendf(nil, "time=%s level=warning msg=\"log lines were dropped: nothing read the output\" lost=%d\n",
			time.Now().Format("2006-01-02T15:04:05.000Z07:00"), l.lost)
		if l.write(told) {
			l.lost = 0
		}
	}
	if !l.write(b) {
		l.lost++
	}
	return len(b), nil
}

// write reports whether it wrote all of b.
func (l *logOutput) write(b []byte) bool {
	for len(b) > 0 {
		poll := []unix.PollFd{{Fd: int32(l.file.Fd()), Events: unix.POLLOUT}}
		if n, err := unix.Poll(poll, 0); err == nil && n == 0 {
			return false
		}
		n, err := l.file.Write(b[:min(len(b), pipeBuf)])
		if err != nil {
			return false
		}
		b = b[n:]
	}
	return true
}

func (l *logOutput) levelChanged() error {
	l.level.Set(map[string]slog.Level{
		"debug": slog.LevelDebug, "verbose": server.LevelVerbose, "notice": slog.LevelInfo, "warning": slog.LevelWarn,
	}[l.set.LogLevel.Get()])
	return nil
}

// logger returns a logger that writes text lines, with a bounded rate for each message.
func (l *logOutput) logger() *slog.Logger {
	return slog.New(&limitedHandler{next: slog.NewTextHandler(io.Writer(l), &slog.HandlerOptions{
		Level: &l.level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.LevelKey {
				return slog.String(slog.LevelKey, levelName(a.Value.Any().(slog.Level)))
			}
			return a
		},
	}), shared: &logLimits{clock: clock.NewReal(), states: make(map[string]*logState)}})
}

func levelName(l slog.Level) string {
	switch {
	case l < server.LevelVerbose:
		return "debug"
	case l < slog.LevelInfo:
		return "verbose"
	case l < slog.LevelWarn:
		return "notice"
	}
	return "warning"
}

// limitedHandler passes on only a few records a second for each message, so that hostile clients cannot fill
// the disk. The next record that passes reports how many were left out.
type limitedHandler struct {
	next   slog.Handler
	shared *logLimits
}

type logLimits struct {
	clock  clock.Clock
	mu     sync.Mutex           // guards states
	states map[string]*logState // by message: messages are constants of the program
}

type logState struct {
	state   []byte
	skipped int
}

// Enabled calls the next handler.
func (h *limitedHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle passes r on if its message is within its limit: 10 a second, with a burst of 50.
func (h *limitedHandler) Handle(ctx context.Context, r slog.Record) error {
	l := limit.Limit{Algorithm: limit.GCRA, Max: 10, Period: 1e9, Burst: 50}
	h.shared.mu.Lock()
	st := h.shared.states[r.Message]
	if st == nil {
		st = &logState{}
		h.shared.states[r.Message] = st
	}
	var d limit.Decision
	next, err := limit.Take(&l, st.state, h.shared.clock.Now(), 1, nil, &d)
	if err == nil && d.Limited {
		st.skipped++
		h.shared.mu.Unlock()
		return nil
	}
	if next != nil {
		st.state = next
	}
	skipped := st.skipped
	st.skipped = 0
	h.shared.mu.Unlock()
	if skipped > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", skipped))
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs returns a handler that shares the limits.
func (h *limitedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitedHandler{next: h.next.WithAttrs(attrs), shared: h.shared}
}

// WithGroup returns a handler that shares the limits.
func (h *limitedHandler) WithGroup(name string) slog.Handler {
	return &limitedHandler{next: h.next.WithGroup(name), shared: h.shared}
}
