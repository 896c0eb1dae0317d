package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// indented returns the README's commands: the lines indented by four spaces outside of fences.
func indented(readme string) []string {
	var out []string
	fenced := false
	for _, line := range strings.Split(readme, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if text, ok := strings.CutPrefix(line, "    "); ok && !fenced {
			out = append(out, text)
		}
	}
	return out
}

// sessions returns the README's fenced sessions: each command after "$ " with its output, without the
// comments beside it.
func sessions(readme string) (out [][2]string) {
	comment := regexp.MustCompile(`\s+#.*`)
	for i, block := range strings.Split(readme, "```") {
		typed, ok := strings.CutPrefix(block, "\n$ ")
		if i%2 == 0 || !ok {
			continue
		}
		cmd, reply, _ := strings.Cut(typed, "\n")
		out = append(out, [2]string{cmd, strings.TrimSpace(comment.ReplaceAllString(reply, ""))})
	}
	return out
}

// TestReadme copies the committed files to an empty directory, runs the README's first command there, and
// types what the README types. Only the ports are different, since the usual ones may be taken.
func TestReadme(t *testing.T) {
	cli := need(t, "redis-cli")
	root := repository(t)
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	commands := indented(readme)
	if len(commands) < 2 || commands[0] != "go run ./cmd/limitdb" || commands[1] != "scripts/test" {
		t.Fatalf("the README's first commands are %q", commands)
	}
	ci, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil || !strings.Contains(string(ci), commands[1]) {
		t.Errorf("CI does not run %s: %v", commands[1], err)
	}

	dir := t.TempDir()
	copyTree := exec.Command("sh", "-c", `git -C "$0" ls-files -z | (cd "$0" && tar -c --null -T -) | tar -x -C "$1"`, root, dir)
	if msg, err := copyTree.CombinedOutput(); err != nil {
		t.Fatalf("copying the tree: %v\n%s", err, msg)
	}
	fields := strings.Fields(commands[0])
	p := startWith(t, options{bin: fields[0], first: fields[1:], chdir: dir})
	// go run does not pass signals on, so a command stops the server.
	defer func() {
		exec.Command(cli, "-p", p.Port(), "SHUTDOWN").Run()
		if code := p.Wait(); code != 0 {
			t.Errorf("exit code %d after SHUTDOWN", code)
		}
	}()
	dialogues := sessions(readme)
	if len(dialogues) < 2 {
		t.Fatalf("the README shows %d dialogues", len(dialogues))
	}
	times := regexp.MustCompile(`\d{4,}`) // milliseconds depend on the typing speed
	for _, d := range dialogues {
		words := strings.Fields(d[0])
		if words[0] != "redis-cli" {
			t.Fatalf("the README types %q", d[0])
		}
		out, err := exec.Command(cli, append([]string{"--no-raw", "-p", p.Port()}, words[1:]...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", d[0], err, out)
		}
		got, want := times.ReplaceAllString(strings.TrimSpace(string(out)), "N"), times.ReplaceAllString(d[1], "N")
		if got != want {
			t.Errorf("%s prints\n%s\nthe README says\n%s", d[0], got, want)
		}
	}
}

// repository returns the root of the checkout.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}
