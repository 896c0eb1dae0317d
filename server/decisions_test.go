package server

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/resp"
)

// What a client has counted itself, by what it asked.
type asked struct{ allowed, limited, peeked, refunded int }

// hear counts an answer whose first integer says whether it is a denial.
func (a *asked) hear(how string, v resp.Value) {
	switch {
	case how == "PEEK":
		a.peeked++
	case how == "REFUND":
		a.refunded++
	case v.Elems[0].Int == 1:
		a.limited++
	default:
		a.allowed++
	}
}

// TestDecisionsAreAnswers asks at random, with checks under several rules, with several limits at once, in
// transactions and scripts, and with WAIT. INFO has the counts that the client has, and the rules that limit
// nobody count the checks that were allowed and took something.
func TestDecisionsAreAnswers(t *testing.T) {
	ts := withRules(t, `
version: 1
namespaces:
  a:
    - {name: user, key: [u], limit: 5/m}
    - {name: all, limit: 400/m}
    - {name: strict, key: [u], limit: 2/m, mode: shadow}
    - {name: trial, key: [u], limit: 6/m, candidate: 3/m}
    - {name: staff, match: {u: u1}, unlimited: true}
    - {name: staff2, match: {u: u1}, unlimited: true}
    - {name: except, key: [u], limit: 3/m, overrides: [{match: {u: u2}, unlimited: true}]}
  b:
    - {name: never, key: [no], limit: 1/m}
    - {name: free, match: {u: u1}, unlimited: true}
    - {name: free2, match: {u: u1}, unlimited: true}
`)
	c := ts.client()
	r := rand.New(rand.NewPCG(20, 4))
	var want asked
	free := map[string]int{"staff": 0, "staff2": 0, "except": 0, "free": 0, "free2": 0, "never": 0}
	check := func() (command, how string, heard func(v resp.Value)) {
		ns, u := []string{"a", "a", "b"}[r.IntN(3)], "u"+strconv.Itoa(1+r.IntN(4))
		how = []string{"", "", "", "COST 0", "COST 2", "PEEK", "REFUND", "WAIT 0"}[r.IntN(8)]
		command = strings.TrimSpace(fmt.Sprintf("RL.CHECK %s 1 u %s %s", ns, u, how))
		return command, how, func(v resp.Value) {
			if ns != "b" || how != "PEEK" && how != "REFUND" { // no limit is asked there
				want.hear(how, v)
			}
			if how == "PEEK" || how == "REFUND" || how == "COST 0" || v.Elems[0].Int == 1 {
				return
			}
			for name, n := range free {
				switch {
				case ns == "a" && u == "u1" && strings.HasPrefix(name, "staff"), ns == "a" && name == "except", ns == "b" && u == "u1" && strings.HasPrefix(name, "free"):
					free[name] = n + 1
				}
			}
		}
	}
	all := func() (command, how string, heard func(v resp.Value)) {
		k := r.IntN(20)
		command = fmt.Sprintf("RL.TAKEALL 3 k%d k%d k%d GCRA 3/m GCRA 4/m GCRA 5/m", k, k+1, k+2)
		return command, "", func(v resp.Value) { want.hear("", v) }
	}
	one := func() (command, how string, heard func(v resp.Value)) {
		how = []string{"TAKE", "PEEK", "REFUND", "RESERVE"}[r.IntN(4)]
		command = fmt.Sprintf("RL.%s o%d GCRA 2/m", how, r.IntN(5))
		return command, how, func(v resp.Value) { want.hear(how, v) }
	}
	for range 1500 {
		command, _, heard := []func() (string, string, func(resp.Value)){check, check, all, one}[r.IntN(4)]()
		switch r.IntN(4) {
		case 0:
			c.do("MULTI")
			c.do(strings.Fields(command)...)
			v := c.do("EXEC")
			if len(v.Elems) != 1 || len(v.Elems[0].Elems) == 0 {
				t.Fatalf("%s in a transaction: %s", command, line(v))
			}
			heard(v.Elems[0])
		default:
			v := c.do(strings.Fields(command)...)
			if len(v.Elems) == 0 {
				t.Fatalf("%s: %s", command, line(v))
			}
			heard(v)
		}
		ts.clock.Advance(time.Duration(r.IntN(300)) * time.Millisecond)
	}
	info := c.do("INFO", "everything").Text
	for name, n := range map[string]int{"allowed": want.allowed, "limited": want.limited, "peeked": want.peeked, "refunded": want.refunded} {
		if line := fmt.Sprintf("\r\ndecisions_%s:%d\r\n", name, n); n < 100 || !strings.Contains(info, line) {
			_, got, _ := strings.Cut(info, "decisions_"+name+":")
			got, _, _ = strings.Cut(got, "\r")
			t.Errorf("%d %s, INFO says %s", n, name, got)
		}
	}
	for _, f := range ts.rules.Figures() {
		if n, ok := free[f.Rule.Name]; ok && f.Counts.Allowed != uint64(n) {
			t.Errorf("%s has allowed %d, the client counts %d", f.Rule.Name, f.Counts.Allowed, n)
		}
	}
}
