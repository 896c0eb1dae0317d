package replication

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLog is the server's log as Raft wants it. What Raft tells of its work is for
// debugging; its warnings are the operator's.
type raftLog struct {
	hclog.Logger // that of nobody: for what Raft does not call
	log          *slog.Logger
}

func newRaftLog(l *slog.Logger) hclog.Logger { return &raftLog{hclog.NewNullLogger(), l} }

func (r *raftLog) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Warn:
		to = slog.LevelWarn
	case hclog.Error:
		to = slog.LevelError
	}
	r.log.Log(context.Background(), to, "raft: "+msg, args...)
}

func (r *raftLog) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r *raftLog) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLog) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLog) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r *raftLog) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r *raftLog) With(args ...any) hclog.Logger  { return newRaftLog(r.log.With(args...)) }
func (r *raftLog) Named(string) hclog.Logger      { return r }
func (r *raftLog) ResetNamed(string) hclog.Logger { return r }

func (r *raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(io.Discard, "", 0)
}
