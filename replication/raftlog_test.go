package replication

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What Raft repeats for every attempt to reach a node is shown once a minute for each node.
func TestRaftRepeatsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := newRaftLog(slog.New(slog.NewTextHandler(&b, nil)))
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
