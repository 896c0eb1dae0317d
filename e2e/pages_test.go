package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// examples returns the lines of a page that are indented by four spaces, in blocks, and its fences that name a file.
func examples(t *testing.T, page string) (blocks [][]string, files map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	fence := regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```")
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if _, name, ok := strings.Cut(m[1], " "); ok {
			files[name] = m[2]
		}
	}
	begun := false
	for line := range strings.Lines(fence.ReplaceAllString(string(text), "")) {
		command, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    ")
		if indented && !begun {
			blocks = append(blocks, nil)
		}
		if indented {
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], command)
		}
		begun = indented
	}
	return blocks, files
}

// writeFiles writes files into a new directory, and returns it.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestHTTPPage starts the server as docs/http.md does, and asks what the page asks.
func TestHTTPPage(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	blocks, files := examples(t, "http.md")
	dir := writeFiles(t, files)
	var p *proc
	asked, reset := 0, regexp.MustCompile(`"reset_ms":[0-9]+`)
	for i, block := range blocks {
		line := block[0]
		if args, ok := strings.CutPrefix(line, "limitdb "); ok {
			p = startWith(t, options{chdir: dir}, strings.Fields(args)...)
		}
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		if p == nil {
			t.Fatalf("the page asks before it has started a server: %s", line)
		}
		out, err := exec.Command("sh", "-c", strings.NewReplacer("curl ", "curl -sS --fail-with-body ", "127.0.0.1:6380", p.HTTPAddr).Replace(line)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
			continue
		}
		got, want := compact(t, string(out)), compact(t, blocks[i+1][0])
		if strings.Contains(line, "/v1/commit") { // time has passed since the hold
			got, want = reset.ReplaceAllString(got, ""), reset.ReplaceAllString(want, "")
		}
		if got != want {
			t.Errorf("%s answers\n%s\nthe page says\n%s", line, got, want)
		}
		asked++
	}
	if asked < 2 {
		t.Errorf("the page asks %d times", asked)
	}
}

// TestRulesPage runs the commands of docs/rules.md on the files of the page.
func TestRulesPage(t *testing.T) {
	t.Parallel()
	blocks, files := examples(t, "rules.md")
	dir := writeFiles(t, files)
	ran := 0
	for _, line := range slices.Concat(blocks...) {
		command, _, _ := strings.Cut(line, "  ") // what it does stands behind it
		words := strings.Fields(command)
		if len(words) < 4 || words[0] != "limitdb" || words[1] != "rules" || words[2] == "import" {
			continue
		}
		cmd := exec.Command(plainBinary(t), words[1:]...)
		cmd.Dir, cmd.Env = dir, cleanEnviron()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		ran++
	}
	if ran < 3 {
		t.Errorf("the page has %d commands on rules", ran)
	}
}

// compact returns JSON without blanks, with its members in the order of their names.
func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	b, _ := json.Marshal(v)
	return string(b)
}
