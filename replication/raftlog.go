package replication

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLog gives Raft the server's log. Raft's messages have the level debug, but warnings and errors stay what they
// are. While a node is away, Raft repeats some warnings at every attempt to reach it. Those are shown once in
// repeatAfter, and have the level debug in between.
type raftLog struct {
	hclog.Logger // of no logger: for methods that Raft does not call
	log          *slog.Logger
	said         *sync.Map // recent warnings, each by its subject
}

// repeatAfter is how long a warning is not repeated.
const repeatAfter = time.Minute

func newRaftLog(l *slog.Logger) hclog.Logger {
	return &raftLog{hclog.NewNullLogger(), l, &sync.Map{}}
}

func (r *raftLog) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Warn:
		to = slog.LevelWarn
	case hclog.Error:
		to = slog.LevelError
	}
	if to != slog.LevelDebug && r.repeats(msg, args) {
		to = slog.LevelDebug
	}
	r.log.Log(context.Background(), to, "raft: "+msg, args...)
}

// repeats reports whether a warning on the same subject was shown lately. If the first argument names a node, the
// subject is that node.
func (r *raftLog) repeats(msg string, args []any) bool {
	about := msg
	if len(args) > 1 && (args[0] == "peer" || args[0] == "server-id" || args[0] == "target") {
		about += fmt.Sprint(args[1])
	}
	if _, said := r.said.LoadOrStore(about, nil); said {
		return true
	}
	time.AfterFunc(repeatAfter, func() { r.said.Delete(about) })
	return false
}

func (r *raftLog) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r *raftLog) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLog) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLog) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r *raftLog) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r *raftLog) With(args ...any) hclog.Logger {
	return &raftLog{r.Logger, r.log.With(args...), r.said}
}
func (r *raftLog) Named(string) hclog.Logger      { return r }
func (r *raftLog) ResetNamed(string) hclog.Logger { return r }

func (r *raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(io.Discard, "", 0)
}
