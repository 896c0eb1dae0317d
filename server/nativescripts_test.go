package server

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"limitdb/known"
	"limitdb/known/knowntest"
	"limitdb/script"
)

// scriptTexts is a folder with the texts of scripts that are in no package.
var scriptTexts = flag.String("scripts", "", "a `folder` of files SHA.lua, to test those scripts, too")

// TestNativeScripts compares each handler with its script, from random states and with random arguments: the replies, and
// the keys afterwards. An additional blank makes the server run the script in Lua. Package known has vectors of Redis for
// the scripts whose text is in no package.
//
//test:norace
func TestNativeScripts(t *testing.T) {
	for _, spec := range knowntest.Specs() {
		if !spec.Published() && *scriptTexts == "" {
			continue
		}
		t.Run(spec.SHA[:8], func(t *testing.T) {
			source := scriptText(t, &spec)
			compareWithLua(t, &spec, source)
		})
	}
}

func compareWithLua(t *testing.T, spec *knowntest.Spec, source string) {
	ts := newTestServer(t)
	pairs := [2][2]*testClient{{ts.client(), ts.client()}, {ts.client(), ts.client()}}
	for _, c := range pairs[1] {
		c.do("HELLO", "3")
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		pair := pairs[rapid.IntRange(0, 1).Draw(rt, "RESP3")]
		prefix := fmt.Sprint("k", n, "-")
		inLua := strings.NewReplacer(prefix, "lua-"+prefix) // the names there
		keys := spec.KeyNames(rt, prefix)
		renamed := func(words []string) []string {
			words = slices.Clone(words)
			for i := range words {
				words[i] = inLua.Replace(words[i])
			}
			return words
		}
		others := renamed(keys)
		for _, call := range spec.Calls(rt, keys, time.Unix(0, ts.clock.Now())) {
			ts.clock.Advance(call.Wait)
			for _, words := range call.Before {
				pair[0].do(words...)
				pair[0].do(renamed(words)...)
			}
			quick, lua := evalLine(pair[0], source, keys, call.Args), evalLine(pair[1], source+" ", others, renamed(call.Args))
			if inLua.Replace(quick) != lua {
				rt.Fatalf("%q: replies %s, in Lua %s", call, quick, lua)
			}
			for i, key := range keys {
				if a, b := heldBy(pair[0], key), heldBy(pair[1], others[i]); a != b {
					rt.Fatalf("%q: key %d holds %s, in Lua %s", call, i, a, b)
				}
			}
		}
	})
}

// evalLine runs a script and returns the reply in one line, without its SHA-1.
func evalLine(c *testClient, source string, keys, args []string) string {
	got := line(c.do(slices.Concat([]string{"EVAL", source, fmt.Sprint(len(keys))}, keys, args)...))
	return strings.ReplaceAll(got, script.SHA([]byte(source)), "SHA")
}

// heldBy returns the value of a key, and its time to live.
func heldBy(c *testClient, key string) string {
	kind := line(c.do("TYPE", key))
	words := []string{"GET", key}
	switch kind {
	case "list":
		words = []string{"LRANGE", key, "0", "-1"}
	case "hash":
		words = []string{"HGETALL", key}
	}
	return fmt.Sprintln(kind, line(c.do(words...)), line(c.do("PTTL", key)))
}

// scriptText returns the text of a script.
func scriptText(t *testing.T, spec *knowntest.Spec) string {
	t.Helper()
	source, err := spec.Source("..", *scriptTexts)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("LIMITDB_E2E") != "1" {
		t.Skipf("scripts/install-test-tools installs it: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// publishedScripts returns the texts of the scripts with a handler's name that are in packages which the tests install. There is one at least.
func publishedScripts(t *testing.T, name string) (sources []string) {
	t.Helper()
	for _, spec := range knowntest.Specs() {
		if s := known.Find(spec.SHA); s != nil && s.Name == name && spec.Published() {
			sources = append(sources, scriptText(t, &spec))
		}
	}
	if len(sources) == 0 {
		t.Fatalf("no package has a script for the handler %s", name)
	}
	return sources
}

// TestNativeScriptsReadOnly checks that a handler writes nothing for EVAL_RO.
func TestNativeScriptsReadOnly(t *testing.T) {
	for _, source := range publishedScripts(t, "incr_expire") {
		c := newTestServer(t).client()
		if got := line(c.do("EVAL_RO", source, "1", "k", "10", "1")); !strings.Contains(got, "Write commands are not allowed") {
			t.Errorf("EVAL_RO replies %s", got)
		}
		if got := line(c.do("EXISTS", "k")); got != "0" {
			t.Error("the script has written")
		}
	}
}
