package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"limitdb/resp"
)

// heldRules are rules of which one takes its cost from a field. A window of a day outlasts the test on any machine.
const heldRules = `version: 1
namespaces:
  llm:
    - {name: tokens, key: [tenant], limit: fixed 1000/d first, cost: tokens}
    - {name: requests, key: [tenant], limit: fixed 10/d first}
`

// figures returns what a reply to a hold or a commit says, without the time until its end, which is the last integer.
func figures(v resp.Value) string {
	if v.Err() != nil {
		code, _, _ := strings.Cut(v.Text, " ")
		return "-" + code
	}
	var all []string
	for i, e := range v.Elems {
		switch {
		case e.Elems != nil:
			for _, part := range e.Elems {
				all = append(all, "("+figures(part)+")")
			}
		case i == 5:
			all = append(all, e.Text)
		case i < 4:
			all = append(all, fmt.Sprint(e.Int))
		}
	}
	return strings.Join(all, " ")
}

// What a check has held before a restart is settled after it, once, whether the log or a snapshot has it.
func TestHeldChecksOutliveARestart(t *testing.T) {
	for _, test := range []struct {
		name  string
		save  bool
		rules string // the file of the start that settles
	}{
		{name: "log", rules: "rules.yaml"},
		{name: "snapshot", save: true, rules: "rules.yaml"},
		{name: "other-rules", rules: "none.yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &machine{t: t, dir: t.TempDir(), boot: 1, up: time.Now()}
			for name, text := range map[string]string{"rules.yaml": heldRules, "none.yaml": "version: 1\nnamespaces:\n  llm: []\n"} {
				if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			under := func(file string) []string {
				return []string{"--appendonly", "yes", "--appendfsync", "always", "--rules-file", filepath.Join(m.dir, file)}
			}
			steps := func(all ...[2]string) func(do func(string) resp.Value) {
				return func(do func(string) resp.Value) {
					for _, s := range all {
						if got := figures(do(s[0])); got != s[1] {
							t.Errorf("%s: %s, want %s", s[0], got, s[1])
						}
					}
					if test.save {
						if v := do("SAVE"); v.Err() != nil {
							t.Error(v.Err())
						}
					}
				}
			}
			m.args = under("rules.yaml")
			m.run(steps(
				[2]string{"RL.CHECK llm 2 tenant a tokens 400 HOLD 1h ID r1", "0 10 9 -1 requests"},
				[2]string{"RL.CHECK llm 2 tenant a tokens 100 HOLD 1h ID r2", "0 10 8 -1 requests"},
				[2]string{"RL.CHECK llm 0 CANCEL r2", "-1 0 10 9 requests"},
				[2]string{"RL.CHECK llm 0 CANCEL r3", "0 0 -1 -1 "}, // whose hold is still under way
				[2]string{"RL.CANCELALL 2 x y ID r4", "0 0"},
			))
			m.run(steps( // what was cancelled before it came is refused
				[2]string{"RL.CHECK llm 2 tenant b tokens 1 HOLD 1h ID r3", "-CANCELLED"},
				[2]string{"RL.HOLDALL 2 y x FIXED 9/h COST 1 FIXED 9/h COST 1 TTL 30s ID r4 ONEXPIRE keep", "-CANCELLED"},
				[2]string{"RL.HOLD x FIXED 9/h COST 1 TTL 30s ID r4", "-CANCELLED"},
				// sent again, it takes nothing
				[2]string{"RL.CHECK llm 2 tenant a tokens 400 HOLD 1h ID r1", "0 10 9 -1 requests"},
				[2]string{"RL.CHECK llm 2 tenant a tokens 401 HOLD 1h ID r1", "-HELD"},
			))
			m.args = under(test.rules)
			m.run(steps(
				[2]string{"RL.CHECK llm 1 tokens 150 COMMIT r1 EXPLAIN", "0 0 10 9 requests (-250 0 1000 850 tokens) (0 0 10 9 requests)"},
				[2]string{"RL.CHECK llm 0 COMMIT r9", "-NOHOLD"},
			))
			m.args = under("rules.yaml")
			m.run(steps(
				[2]string{"RL.CHECK llm 2 tenant a tokens 850", "0 1000 0 -1 tokens"},
			))
		})
	}
}
