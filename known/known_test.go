package known_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"limitdb/known"
	"limitdb/known/knowntest"
)

var update = flag.Bool("update", false, "write the generated pages")

func TestFind(t *testing.T) {
	if s := known.Find("f74233f556d3f99c50b61169cf8aa8d5deb63fb2"); s == nil || s.Library != "ulule/limiter" || !s.Native() {
		t.Errorf("%+v", s)
	}
	for _, sha := range []string{"", "f7", strings.Repeat("0", 40), "ulule/limiter"} {
		if s := known.Find(sha); s != nil {
			t.Errorf("%q is of %s", sha, s.Library)
		}
	}
}

// Each script is in the table once, and each that has a handler has calls to test it with.
func TestTable(t *testing.T) {
	calls := map[string]bool{}
	for _, spec := range knowntest.Specs() {
		calls[spec.SHA] = true
	}
	seen := map[string]bool{}
	for s := range known.All() {
		if seen[s.SHA] || !regexp.MustCompile("^[0-9a-f]{40}$").MatchString(s.SHA) || s.Library == "" || s.Name == "" || s.Versions == "" {
			t.Errorf("%+v", s)
		}
		if seen[s.SHA] = true; s.Native() != calls[s.SHA] {
			t.Errorf("%s %s: a handler: %v, calls to test it: %v", s.Library, s.Name, s.Native(), calls[s.SHA])
		}
	}
}

const scriptsFile = "../docs/scripts.md"

const scriptsHead = `# Scripts of known limiters

Limiters keep their counters in Redis by Lua scripts. limitdb runs any script. It knows the scripts below by their SHA-1, and runs most of them as Go code, in a fraction of the
time. The Go code gives the script's replies, and leaves the same values and expiries, so clients with other versions of the library can share the keys. For an unusual call, for
example on a key that holds something else, the script itself runs, and so it does for ` + "`EVAL_RO` and `EVALSHA_RO`" + `. The scripts
of bottleneck always run in Lua, and so do two that search for keys by a pattern.

With the directive ` + "`scripts known`" + `, limitdb runs these scripts and refuses all others. Some libraries let you change a script's text. A changed script has another SHA-1, so it runs in Lua, or is refused.

| library | script | versions | SHA-1 | runs as |
|---|---|---|---|---|
`

// TestGeneratedScripts writes docs/scripts.md, or checks that it is current.
func TestGeneratedScripts(t *testing.T) {
	page := bytes.NewBufferString(scriptsHead)
	for s := range known.All() {
		as := "Lua"
		if s.Native() {
			as = "Go"
		}
		fmt.Fprintf(page, "| %s | %s | %s | `%s…` | %s |\n", s.Library, s.Name, s.Versions, s.SHA[:8], as)
	}
	if *update {
		if err := os.WriteFile(scriptsFile, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(scriptsFile); err != nil || !bytes.Equal(page.Bytes(), want) {
		t.Errorf("%s differs from the table in known: run scripts/docs (%v)", scriptsFile, err)
	}
}
