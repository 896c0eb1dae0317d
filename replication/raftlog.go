package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"limitdb/replication/peers"
)

// raftLog gives Raft the server's log. Raft's messages have the level debug, but warnings and errors stay what they
// are, unless they belong to every start and end. While a node is away, Raft repeats some warnings at every attempt to
// reach it. Those are shown once in repeatAfter, and have the level debug in between.
type raftLog struct {
	hclog.Logger // of no logger: for methods that Raft does not call
	log          *slog.Logger
	said         *Warnings // of the group
	away         *Warnings // of nodes that are not reached
}

// Warnings are what Raft has warned of lately.
type Warnings struct {
	said sync.Map // each by its subject
}

// repeatAfter is how long a warning is not repeated.
const repeatAfter = time.Minute

// newRaftLog returns a log of a group. away may be nil: see Options.Away.
func newRaftLog(l *slog.Logger, away *Warnings) hclog.Logger {
	if away == nil {
		away = new(Warnings)
	}
	return &raftLog{hclog.NewNullLogger(), l, new(Warnings), away}
}

func (r *raftLog) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Warn:
		to = slog.LevelWarn
	case hclog.Error:
		to = slog.LevelError
	}
	if to != slog.LevelDebug && (ordinary(msg, args) || r.repeats(msg, args)) {
		to = slog.LevelDebug
	}
	r.log.Log(context.Background(), to, "raft: "+msg, args...)
}

// ordinary reports whether a warning is about a replica that has nothing yet, because it has not joined or gets its
// first entries, or about a connection that this node has closed.
func ordinary(msg string, args []any) bool {
	switch msg {
	case "no known peers, aborting election":
		return true
	case "failed to get previous log":
		return argument(args, "last-index") == uint64(0)
	case "appendEntries rejected, sending older logs":
		return argument(args, "next") == uint64(1)
	case "failed to decode incoming command":
		err, _ := argument(args, "error").(error)
		return errors.Is(err, net.ErrClosed)
	}
	return false
}

// argument returns the argument of a message with a name, nil if it has none.
func argument(args []any, name string) any {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == name {
			return args[i+1]
		}
	}
	return nil
}

// repeats reports whether a warning on the same subject was shown lately. If it names a node, the subject is that node.
// That it is not reached is shown once for all groups; what is about a snapshot, once for each.
func (r *raftLog) repeats(msg string, args []any) bool {
	said, about := r.said, msg
	if node := nodeOf(args); node != "" {
		about += " " + node
		if argument(args, "id") == nil {
			said = r.away
		}
	}
	if _, repeated := said.said.LoadOrStore(about, nil); repeated {
		return true
	}
	time.AfterFunc(repeatAfter, func() { said.said.Delete(about) })
	return false
}

// nodeOf returns the node that a message names first, "" for none. A node has another server id in each group.
func nodeOf(args []any) string {
	if len(args) < 2 {
		return ""
	}
	switch args[0] {
	case "peer", "server-id", "target":
	default:
		return ""
	}
	switch v := args[1].(type) {
	case raft.Server:
		return string(v.Address)
	case raft.ServerID:
		return peers.NameOf(string(v))
	}
	return fmt.Sprint(args[1])
}

func (r *raftLog) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r *raftLog) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLog) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLog) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r *raftLog) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r *raftLog) With(args ...any) hclog.Logger {
	return &raftLog{r.Logger, r.log.With(args...), r.said, r.away}
}
func (r *raftLog) Named(string) hclog.Logger      { return r }
func (r *raftLog) ResetNamed(string) hclog.Logger { return r }

func (r *raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(io.Discard, "", 0)
}
