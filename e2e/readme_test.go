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

// sessions returns the README's fenced sessions with one server: each command after "$ " with its output, without the
// comments beside it.
func sessions(readme string) (out [][2]string) {
	comment := regexp.MustCompile(`\s+#.*`)
	for i, block := range strings.Split(readme, "```") {
		typed, ok := strings.CutPrefix(block, "\n$ ")
		if i%2 == 0 || !ok || strings.Contains(typed, "-p 7003") {
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
	t.Parallel()
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
	build := exec.Command("go", "build", "-o", os.DevNull, fields[len(fields)-1]) // on a busy machine it takes longer than a start may
	build.Dir = dir
	if msg, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, msg)
	}
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

// TestReadmeNodes starts three nodes with the README's commands, types what the README types, and kills the leader.
func TestReadmeNodes(t *testing.T) {
	t.Parallel()
	cli := need(t, "redis-cli")
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	bin, work := plainBinary(t), t.TempDir()
	ports := strings.NewReplacer("7001", freePort(t), "7002", freePort(t), "7003", freePort(t), "7101", freePort(t), "7102", freePort(t), "7103", freePort(t))
	var nodes []*exec.Cmd
	var replies []string
	typed := ""
	for _, line := range strings.Split(string(data), "\n") {
		if args, ok := strings.CutPrefix(line, "limitdb --port "); ok {
			c := exec.Command(bin, strings.Fields("--port "+ports.Replace(strings.TrimSuffix(args, " &")))...)
			c.Dir, c.Env = work, cleanEnviron()
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
			nodes = append(nodes, c)
		}
		if _, command, ok := strings.Cut(line, "redis-cli --json -p 7003 "); ok && strings.HasPrefix(line, "$ ") {
			typed = command
			continue
		}
		if typed != "" {
			replies = append(replies, line)
			typed = ""
		}
	}
	if len(nodes) != 3 || len(replies) != 2 {
		t.Fatalf("the README starts %d nodes and shows %q", len(nodes), replies)
	}
	ask := func(words ...string) string {
		out, err := exec.Command(cli, append([]string{"--json", "-p", ports.Replace("7003")}, words...)...).CombinedOutput()
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(out))
	}
	eventually(t, "all have a vote", func() bool { return strings.Contains(ask("RAFT", "INFO"), `"voters":3`) })
	eventually(t, "the first node leads", func() bool { return ask("RAFT", "LEADER") == `"127.0.0.1:`+ports.Replace("7001")+`"` })
	last := regexp.MustCompile(`\d+\]$`) // milliseconds, which depend on the typing speed
	for i, want := range replies {
		var got string
		// A busy machine may elect a leader later than a command waits for one. Then the command was not counted.
		eventually(t, "a node leads", func() bool {
			got = ask(strings.Fields("RL.TAKE user123 GCRA 30/h BURST 16")...)
			return !strings.Contains(got, "CLUSTERDOWN")
		})
		if last.ReplaceAllString(got, "N") != last.ReplaceAllString(want, "N") {
			t.Errorf("reply %d is %s, and %s in the README", i+1, got, want)
		}
		if i == 0 {
			_ = nodes[0].Process.Kill()
			_ = nodes[0].Wait() // the connections to it have ended now
		}
	}
}
