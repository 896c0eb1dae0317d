package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// idRules are rules of a caller's rate, and of what it has in flight.
const idRules = `version: 1
namespaces:
  n:
    - {name: rate, key: [user], limit: fixed 9/d first}
    - {name: flight, key: [user], in_flight: 2, lease: 24h}
`

// withoutTimes returns a reply without its two times, which are its fourth and fifth words if it has so many.
func withoutTimes(reply string) string {
	words := strings.Fields(strings.Trim(reply, "[]"))
	if len(words) < 5 {
		return reply
	}
	return strings.Join(append(words[:3], words[5:]...), " ")
}

// idsAcross sends requests with ids, moves on to where they are to be known, and sends them again: what was granted is granted again and takes
// nothing, what was denied has left no id, and what is in flight is given back once. ask runs a command, and onward moves.
func idsAcross(t *testing.T, ask func(words ...string) string, onward func()) {
	t.Helper()
	step := func(command, want string) {
		t.Helper()
		if got := withoutTimes(ask(strings.Fields(command)...)); got != want && !strings.HasPrefix(got, want+" this ID ") {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	for _, s := range [][2]string{
		{"RL.TAKE k FIXED 10/d FIRST COST 4 ONCE a FOR 1h", "0 10 6"},
		{"RL.TAKE k FIXED 10/d FIRST COST 7 ONCE denied FOR 1h", "1 10 6"},
		{"RL.TAKEALL 2 x y FIXED 10/d FIRST COST 3 FIXED 20/d FIRST COST 3 ONCE b FOR 1h", "0"},
		{"RL.CHECK n 1 user u COST 2 ONCE c FOR 1h", "0 2 1 flight c"},
		{"RL.CHECK n 1 user u COST 3 HOLD 1h ID d", "0 2 0 flight d"},
		{"RL.CHECK n 1 user u ONCE e FOR 1h", "1 2 0 flight"}, // denied: nothing in flight is over
	} {
		if s[1] == "0" {
			ask(strings.Fields(s[0])...)
			continue
		}
		step(s[0], s[1])
	}
	for range 2 {
		onward()
		step("RL.TAKE k FIXED 10/d FIRST COST 4 ONCE a FOR 1h", "0 10 6")
		step("RL.TAKE k FIXED 10/d FIRST COST 5 ONCE a FOR 1h", "IDUSED")
		ask(strings.Fields("RL.TAKEALL 2 x y FIXED 10/d FIRST COST 3 FIXED 20/d FIRST COST 3 ONCE b FOR 1h")...)
		step("RL.PEEK x FIXED 10/d FIRST COST 0", "0 10 7")
		step("RL.PEEK y FIXED 20/d FIRST COST 0", "0 20 17")
		step("RL.CHECK n 1 user u COST 2 ONCE c FOR 1h", "0 2 0 flight c")
		step("RL.CHECK n 1 user u COST 3 HOLD 1h ID d", "0 2 0 flight d")
		step("RL.CHECK n 1 user u COST 4 HOLD 1h ID d", "HELD")
		step("RL.CHECK n 1 user u ONCE e FOR 1h", "1 2 0 flight")
		step("RL.CHECK n 1 user u COST 0", "0 9 4 rate")
	}
	// The id of a denial is free for another request, which is remembered in its place.
	step("RL.TAKE k FIXED 10/d FIRST COST 1 ONCE denied FOR 1h", "0 10 5")
	step("RL.CHECK n 0 COMMIT d COST 1", "-2 0 9 rate")
	onward()
	step("RL.TAKE k FIXED 10/d FIRST COST 1 ONCE denied FOR 1h", "0 10 5")
	step("RL.CHECK n 0 COMMIT d COST 1", "-2 0 9 rate")
	step("RL.CHECK n 1 user u RELEASE d", "0")
	step("RL.CHECK n 1 user u ONCE e FOR 1h", "0 2 0 flight e")
	step("RL.CHECK n 1 user u RELEASE c", "1")
	step("RL.CHECK n 1 user u RELEASE c", "0")
	step("RL.CHECK n 1 user u COST 0", "0 9 5 rate")
}

// A request with an id counts once, also if its leader is killed before it is sent again.
func TestIdsOutliveLeaders(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	leader(t, nodes).ask(t, "RL.RULES", "LOAD", idRules)
	var down *raftNode
	var was *proc
	idsAcross(t, func(words ...string) string { return leader(t, nodes).ask(t, words...) }, func() {
		if down != nil {
			down.proc = was
			down.restart(t)
			follows(t, down)
		}
		down = leader(t, nodes)
		was, down.proc = down.proc, nil
		was.Kill()
	})
}

// Nor does a kill of one server let a request with an id count twice, whether the log or a snapshot has the ids.
func TestIdsOutliveKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(idRules), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--appendonly", "yes", "--appendfsync", "always", "--rules-file", file}
	n := &raftNode{proc: startIn(t, dir, args...)}
	kills := 0
	idsAcross(t, func(words ...string) string { return n.ask(t, words...) }, func() {
		if kills++; kills%2 == 0 {
			if got := n.ask(t, "SAVE"); got != "OK" {
				t.Error(fmt.Sprint("SAVE: ", got))
			}
		}
		n.Kill()
		n.proc = startIn(t, dir, args...)
	})
}
