package server

import (
	"strings"
	"testing"

	"limitdb/limit"
)

// What every row must say for the reference, COMMAND DOCS and redis-cli's hints.
func TestCommandTableIsComplete(t *testing.T) {
	kinds := map[string]bool{
		"string": true, "integer": true, "double": true, "key": true, "pattern": true,
		"unix-time": true, "pure-token": true, "oneof": true, "block": true,
	}
	var checkArgs func(c *command, args []argument)
	checkArgs = func(c *command, args []argument) {
		for _, a := range args {
			leaf := a.kind != "oneof" && a.kind != "block"
			switch {
			case a.name == "":
				t.Errorf("%s: an argument without a name", c.fullName())
			case !kinds[a.kind]:
				t.Errorf("%s: argument %s is a %q, which redis-cli does not know", c.fullName(), a.name, a.kind)
			case leaf != (len(a.args) == 0):
				t.Errorf("%s: argument %s is a %s with %d arguments", c.fullName(), a.name, a.kind, len(a.args))
			case a.kind == "pure-token" && a.token == "":
				t.Errorf("%s: argument %s is a token without one", c.fullName(), a.name)
			case a.kind == "key" && !c.hasKeys():
				t.Errorf("%s: argument %s is a key, but the row has no key positions", c.fullName(), a.name)
			}
			checkArgs(c, a.args)
		}
	}
	for _, c := range newTable(families()).all {
		if c.summary == "" || !strings.HasSuffix(c.summary, ".") || c.group == "" || c.since == "" || c.complexity == "" {
			t.Errorf("%s: summary (a sentence), group, since and complexity are needed", c.fullName())
		}
		if (c.run == nil) != (len(c.subs) > 0) && c.name != "COMMAND" {
			t.Errorf("%s: either a handler or subcommands", c.fullName())
		}
		if least := shortest(c); c.run != nil && len(c.subs) == 0 && !arityFits(c, least) {
			t.Errorf("%s: arity %d, but its arguments make at least %d", c.fullName(), c.arity, least)
		}
		if c.firstKey > 0 && c.step == 0 {
			t.Errorf("%s: key positions without a step", c.fullName())
		}
		checkArgs(c, c.args)
	}
}

// shortest is the number of words of the shortest call that the arguments allow.
func shortest(c *command) int {
	n := 1
	if c.parent != nil {
		n = 2
	}
	for _, a := range c.args {
		n += words(a)
	}
	return n
}

func words(a argument) int {
	if a.optional {
		return 0
	}
	n := 0
	if a.token != "" {
		n++
	}
	switch a.kind {
	case "pure-token":
	case "block":
		for _, b := range a.args {
			n += words(b)
		}
	case "oneof":
		least := 1 << 30
		for _, b := range a.args {
			least = min(least, words(b))
		}
		n += least
	default:
		n++
	}
	return n
}

func arityFits(c *command, least int) bool {
	if c.arity < 0 {
		return -c.arity <= least
	}
	return c.arity == least
}

// Every option that the parser knows is in COMMAND DOCS and in the reference, and
// the reference has no other.
func TestEveryOptionIsDescribed(t *testing.T) {
	page := string(appendReference(nil, readNotes(t)))
	c := newTestServer(t).client()
	for _, name := range []string{"RL.TAKE", "RL.PEEK", "RL.REFUND", "RL.RESERVE", "RL.TAKEALL"} {
		docs := line(c.do("COMMAND", "DOCS", name))
		_, syntax, _ := strings.Cut(page, "```\n"+name+" ")
		syntax, _, _ = strings.Cut(syntax, "\n```")
		for _, o := range limit.Options() {
			if !strings.Contains(docs, `"token" "`+o.Name+`"`) {
				t.Errorf("COMMAND DOCS %s has no %s", name, o.Name)
			}
			if !strings.Contains(syntax, "["+o.Name) {
				t.Errorf("the reference of %s has no %s", name, o.Name)
			}
		}
	}
}
