package server

import (
	"strings"
	"testing"
)

// Commands on several limits ask the groups that other nodes lead, and reply as one group does.
func TestSeveralNodesTakeTogether(t *testing.T) {
	n := newGroupNodes(t)
	one := newTestServer(t).client()
	for at, ts := range n.nodes {
		c := ts.client()
		key := func(g int) string { return "{" + n.key(g) + "}" + string(rune('a'+at)) }
		for _, words := range []string{
			"RL.TAKEALL 2 " + key(2) + " " + key(3) + " FIXED 2/h FIRST FIXED 9/h FIRST",
			"RL.TAKEALL 4 " + key(2) + " " + key(3) + " " + key(1) + " " + key(4) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 3 FIXED 9/h FIRST LOG 5/h",
			"RL.TAKEALL 2 " + key(2) + " " + key(3) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 6",
			"RL.TAKEALL 3 " + key(1) + " " + key(3) + " " + key(2) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 2 FIXED 4/h FIRST COST 2",
		} {
			if got, want := c.send(words+"\r\n", 1)[0], line(one.do(strings.Fields(words)...)); got != want {
				t.Errorf("node %d: %s: %s, in one group %s", at, words, got, want)
			}
		}
	}
}
