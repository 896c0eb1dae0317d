package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"limitdb/limit"
	"limitdb/server/spec"
)

// Every row has what the reference, COMMAND DOCS and redis-cli's hints need.
func TestCommandTableIsComplete(t *testing.T) {
	kinds := map[string]bool{
		"string": true, "integer": true, "double": true, "key": true, "pattern": true,
		"unix-time": true, "pure-token": true, "oneof": true, "block": true,
	}
	var checkArgs func(c *command, args []spec.Argument)
	checkArgs = func(c *command, args []spec.Argument) {
		for _, a := range args {
			leaf := a.Kind != "oneof" && a.Kind != "block"
			switch {
			case a.Name == "":
				t.Errorf("%s: an argument without a name", c.Full)
			case !kinds[a.Kind]:
				t.Errorf("%s: argument %s is a %q, which redis-cli does not know", c.Full, a.Name, a.Kind)
			case leaf != (len(a.Args) == 0):
				t.Errorf("%s: argument %s is a %s with %d arguments", c.Full, a.Name, a.Kind, len(a.Args))
			case a.Kind == "pure-token" && a.Token == "":
				t.Errorf("%s: argument %s is a token without one", c.Full, a.Name)
			case a.Kind == "key" && !c.HasKeys():
				t.Errorf("%s: argument %s is a key, but the row has no key positions", c.Full, a.Name)
			}
			checkArgs(c, a.Args)
		}
	}
	for _, c := range allCommands().rows {
		if c.Summary == "" || !strings.HasSuffix(c.Summary, ".") || c.Group == "" || c.Since == "" || c.Complexity == "" {
			t.Errorf("%s: summary (a sentence), group, since and complexity are needed", c.Full)
		}
		if c.runs() == (len(c.subs) > 0) && c.Name != "COMMAND" {
			t.Errorf("%s: either a handler or subcommands", c.Full)
		}
		if least := shortest(c); c.runs() && len(c.subs) == 0 && !arityFits(c, least) {
			t.Errorf("%s: arity %d, but its arguments make at least %d", c.Full, c.Arity, least)
		}
		if c.FirstKey > 0 && c.Step == 0 {
			t.Errorf("%s: key positions without a step", c.Full)
		}
		checkArgs(c, c.Args)
	}
}

// shortest is the number of words of the shortest call that the arguments allow.
func shortest(c *command) int {
	n := 1
	if c.Parent != nil {
		n = 2
	}
	for _, a := range c.Args {
		n += words(a)
	}
	return n
}

func words(a spec.Argument) int {
	if a.Optional {
		return 0
	}
	n := 0
	if a.Token != "" {
		n++
	}
	switch a.Kind {
	case "pure-token":
	case "block":
		for _, b := range a.Args {
			n += words(b)
		}
	case "oneof":
		least := 1 << 30
		for _, b := range a.Args {
			least = min(least, words(b))
		}
		n += least
	default:
		n++
	}
	return n
}

func arityFits(c *command, least int) bool {
	if c.Arity < 0 {
		return -c.Arity <= least
	}
	return c.Arity == least
}

// COMMAND DOCS and the reference have every option that the parser knows, and
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
				t.Errorf("%s: the reference has no %s", name, o.Name)
			}
		}
	}
}

// The reference has every word that a handler looks for, but for those that it refuses.
func TestEveryWordIsDescribed(t *testing.T) {
	refused := strings.Fields("ABORT BCAST BYLEX OPTOUT PREFIX HEAD POST PUT HOST:")
	page, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```\n.*?\n```").FindAll(page, -1) {
		for _, word := range regexp.MustCompile(`[A-Z][A-Z-]+`).FindAll(block, -1) {
			described[string(word)] = true
		}
	}
	looks := regexp.MustCompile(`EqualFold\([^"\n]*"([A-Z][A-Z:-]+)"`)
	n := 0
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, word := range looks.FindAllSubmatch(text, -1) {
			if n++; !described[string(word[1])] && !slices.Contains(refused, string(word[1])) {
				t.Errorf("%s looks for %s, which no syntax in %s has", path, word[1], referenceFile)
			}
		}
		return err
	})
	if err != nil || n < 50 {
		t.Errorf("%d words: %v", n, err)
	}
}
