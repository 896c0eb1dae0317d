package server

import (
	"strings"
	"testing"
)

// TestHistory checks that RL.HISTORY counts what clients were answered, on the node that leads.
func TestHistory(t *testing.T) {
	ts := withRules(t, "version: 1\nnamespaces: {shop: [{name: x, key: [u], limit: 1/m}, {name: s, key: [u], limit: fixed 1/m, mode: shadow}]}")
	c := ts.client()
	look := func() { ts.history.Look(ts.clock.Now()) }
	look()
	c.steps(ts,
		[2]string{"RL.TAKE a GCRA 1/m", "[0 1 0 -1 60000]"},
		[2]string{"RL.TAKE a GCRA 1/m", "[1 1 0 60000 60000]"},
		[2]string{"RL.CHECK shop 1 u v", `[0 1 0 -1 60000 "x"]`},
		[2]string{"RL.CHECK shop 1 u v", `[1 1 0 60000 60000 "x"]`},
		[2]string{"RL.CHECK shop 0", `[0 -1 -1 -1 0 ""]`},
		[2]string{"+2s", ""},
	)
	look()
	got := line(c.do("RL.HISTORY"))
	if !strings.Contains(got, `"allowed" 3 "limited" 2 "shadow" 0 `) || !strings.Contains(got, ` 2000 3 2 0 `) {
		t.Error(got)
	}
	if !strings.Contains(got, `"checks" [["shop" 3 `) {
		t.Error(got)
	}
	over := overHTTP(t, ts.Server, "RL.HISTORY")
	if len(over.Elems) != 36 {
		t.Errorf("over HTTP: %+v", over)
	}
}
