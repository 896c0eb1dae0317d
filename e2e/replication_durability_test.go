package e2e

import (
	"strings"
	"testing"
)

// The log of a cluster takes the place of a server's own log. The commands and directives about that log say so.
func TestLogOfAClusterTakesThePlaceOfTheServers(t *testing.T) {
	t.Parallel()
	n := startCluster(t, 1)[0]
	const byRaft = "with raft-addr"
	for _, c := range []struct{ command, want string }{
		{"CONFIG SET appendonly no", byRaft},
		{"CONFIG SET appendonly yes", byRaft},
		{"CONFIG SET appendfsync no", byRaft},
		{"CONFIG SET save 60", "save"},
		{"CONFIG SET recovery-mode conservative", "immutable"},
		{"CONFIG SET recovery-clock wall", "immutable"},
		{"BACKUP one", "limitdb backup"},
		{"WAITAOF 1 0 1", "appendonly is disabled"},
		{"WAITAOF 0 0 1", "[0 0]"},
		{"WAIT 0 1", "0"},
		{"RL.CLOCK ADOPT", "no node can move the time of the cluster"},
		{"BGREWRITEAOF", "Background append only file rewriting started"},
		{"SAVE", "OK"},
		{"BGSAVE", "Background saving started"},
	} {
		got := ""
		eventually(t, c.command+" is not held up by another snapshot", func() bool {
			got = n.ask(t, strings.Fields(c.command)...)
			return !strings.Contains(got, "in progress")
		})
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
	if got := n.ask(t, "CONFIG", "GET", "appendfsync"); !strings.Contains(got, "everysec") {
		t.Errorf("appendfsync after a change that was refused: %s", got)
	}
	if !strings.Contains(n.Log(), "takes the place of appendonly") {
		t.Error("the log of the process does not say so")
	}
}
