package replication

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// What Raft repeats for every attempt to reach a node is shown once a minute for each node.
func TestRaftRepeatsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := newRaftLog(slog.New(slog.NewTextHandler(&b, nil)), nil)
		for range 100 {
			l.Warn("failed to contact", "server-id", "a", "time", time.Now())
			l.Warn("failed to contact", "server-id", "b", "time", time.Now())
			l.Error("failed", "error", "x")
			l.With("x", 1).Error("failed", "error", "x")
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if got := strings.Count(b.String(), "\n"); got != 6 {
			t.Errorf("%d lines in 100 s:\n%s", got, b.String())
		}
	})
}

// That a node is not reached is shown once for all groups of a process, and what is about a snapshot once for each group.
func TestRaftOfSeveralGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		var away Warnings
		for _, id := range []raft.ServerID{"n2@01", "n2@02", "n2@03"} {
			l := newRaftLog(slog.New(slog.NewTextHandler(&b, nil)), &away)
			l.Error("failed to appendEntries to", "peer", raft.Server{ID: id, Address: "127.0.0.1:7102"}, "error", "refused")
			l.Error("failed to heartbeat to", "peer", raft.ServerAddress("127.0.0.1:7102"), "error", "refused")
			l.Warn("failed to contact", "server-id", id, "time", time.Second)
			l.Error("failed to install snapshot", "peer", id, "id", "2-31", "error", "full")
			l.Warn("clearing log suffix", "from", uint64(1), "to", uint64(2))
		}
		if got := strings.Count(b.String(), "\n"); got != 3+3+3 {
			t.Errorf("%d lines:\n%s", got, b.String())
		}
		time.Sleep(2 * repeatAfter)
	})
}

// What every new replica and every end of a node causes is no warning.
func TestRaftWarnings(t *testing.T) {
	for _, c := range []struct {
		warn string
		args []any
		want bool
	}{
		{"no known peers, aborting election", nil, false},
		{"failed to get previous log", []any{"previous-index", uint64(6), "last-index", uint64(0), "error", "log not found"}, false},
		{"failed to get previous log", []any{"previous-index", uint64(6), "last-index", uint64(5), "error", "log not found"}, true},
		{"appendEntries rejected, sending older logs", []any{"peer", "n2", "next", uint64(1)}, false},
		{"appendEntries rejected, sending older logs", []any{"peer", "n2", "next", uint64(2)}, true},
		{"failed to decode incoming command", []any{"error", &net.OpError{Op: "read", Err: net.ErrClosed}}, false},
		{"failed to decode incoming command", []any{"error", io.ErrUnexpectedEOF}, true},
		{"not part of stable configuration, aborting election", nil, true},
	} {
		var b bytes.Buffer
		newRaftLog(slog.New(slog.NewTextHandler(&b, nil)), nil).Warn(c.warn, c.args...)
		if got := strings.Contains(b.String(), "level=WARN"); got != c.want {
			t.Errorf("%s %v: warned %v, want %v", c.warn, c.args, got, c.want)
		}
	}
}
