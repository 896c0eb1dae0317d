package e2e

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// production returns the commands of docs/production.md, with the heading above each of its blocks.
func production(t *testing.T) (headings, blocks []string) {
	t.Helper()
	page, err := os.ReadFile("../docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(page), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
			headings, blocks = append(headings, heading), append(blocks, m[1])
		}
	}
	return headings, blocks
}

// freeTens returns a number of four digits such that its tenfold and the nine ports behind that are free.
func freeTens(t *testing.T) string {
	t.Helper()
	for {
		port := atoi(t, freePort(t))
		if port%10 != 0 {
			continue
		}
		all := true
		for i := 1; i <= 3; i++ {
			all = all && atoi(t, freePort(t)) == port+i
		}
		if all {
			return strconv.Itoa(port / 10)
		}
	}
}

// TestProduction runs every command of docs/production.md, from the first to the last, with other ports and another home, and tells how long they take.
func TestProduction(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "openssl", "redis-cli", "prometheus", "promtool"} {
		need(t, tool)
	}
	headings, blocks := production(t)
	script := "set -euo pipefail\n"
	for i, block := range blocks {
		script += "echo \"== $SECONDS s: " + headings[i] + "\"\n"
		if headings[i] == "A new password" {
			script += "old=$(cat password)\n"
		}
		script += block
		if headings[i] == "A new password" {
			script += "for n in 1 2 3; do REDISCLI_AUTH=$old ask $n PING 2>&1 | sed 's/^/old: /'; done\n"
		}
	}
	tens := map[string]string{}
	for _, of := range []string{"700", "710", "720", "800"} {
		tens[of] = freeTens(t)
	}
	script = regexp.MustCompile(`\b(700|710|720|800)(\$n|\$1|[1-3]\b)`).ReplaceAllStringFunc(script, func(port string) string { return tens[port[:3]] + port[3:] })
	script = strings.ReplaceAll(script, "9090", freePort(t))

	ctx, cancel := context.WithTimeout(context.Background(), 4*deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = repository(t)
	cmd.Env = append(cleanEnviron(), "HOME="+t.TempDir())
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		dir, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(dir)))
	}
	log := &logBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	// What the script starts has its process group, and ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = kill, 10*time.Second
	began := time.Now()
	err := cmd.Run()
	_ = kill()
	out := log.String()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("all of it took %v\n%s", time.Since(began).Round(time.Second), strings.Join(regexp.MustCompile(`(?m)^== .*$`).FindAllString(out, -1), "\n"))
	for _, want := range []string{
		"0\n20\n19\n-1\n",                  // the first decision
		"0\n20\n18\n-1\n",                  // the second, at another node
		"SUCCESS: prometheus.yml is valid", // with the rules
		"=> 3 @",                           // all nodes are scraped
		"limitdb_version:1.0.1",
		"PONG\nPONG\nPONG\nold: ", // with the new password
		"NOAUTH",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
			break
		}
	}
	if len(regexp.MustCompile(`(?m)^serial=`).FindAllString(out, -1)) != 3 {
		t.Errorf("the certificates were not renewed:\n%s", out)
	}
}
