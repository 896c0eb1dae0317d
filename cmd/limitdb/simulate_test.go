package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/cmd/limitdb/cli"
)

// simulateRun runs limitdb simulate with these arguments; status is the exit status.
func simulateRun(t *testing.T, stdin string, args ...string) (out, errOut string, status int) {
	t.Helper()
	root := commands()
	var stdout, stderr bytes.Buffer
	root.SetArgs(append([]string{"simulate"}, args...))
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := root.Execute()
	if err != nil {
		stderr.WriteString(err.Error())
		status = 1
		var code cli.ExitCode
		if errors.As(err, &code) {
			status = int(code)
		}
	}
	return stdout.String(), stderr.String(), status
}

// short has 6 requests of a within a second, and one of b.
const short = "0,a\n0.1,a\n0.2,a\n0.3,b\n0.4,a\n0.5,a\n0.6,a\n"

func TestSimulateTable(t *testing.T) {
	out, errOut, status := simulateRun(t, short, "--limit", "gcra 2/s", "-l", "GCRA 10/s", "-")
	want := `7 requests of 2 callers in 600 ms, from 1970-01-01T00:00:00Z

limit      denied          callers affected          median wait  worst wait  peak  in any
GCRA 2/s        3  42.9 %                 1  50.0 %       300 ms      400 ms     3     1 s
GCRA 10/s       0     0 %                 0     0 %            -           -     6     1 s

GCRA 2/s would touch 1 of 2 callers: a (3 of 6 denied).
GCRA 10/s would touch nobody.
In any 1 s, half of the callers ask for at most 1, 99 % for at most 6, and the busiest, a, for 6. Suggested: GCRA 6/s, which would deny nothing to 99 % of the callers.
`
	if out != want || errOut != "" || status != 0 {
		t.Errorf("status %d, %s\n%s\nwant\n%s", status, errOut, out, want)
	}
}

func TestSimulateSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	older, newer, page := filepath.Join(dir, "older.csv"), filepath.Join(dir, "newer.csv"), filepath.Join(dir, "page.html")
	for name, text := range map[string]string{older: short, newer: "time,key\n0.7,a\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, status := simulateRun(t, "", "--sweep", "1,2/s", "--algorithm", "gcra,gcra burst 5", "--json", "--html", page, older, newer)
	var result struct {
		Requests int
		Limits   []struct{ Limit string }
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || status != 0 {
		t.Fatalf("status %d, %v, %s", status, err, errOut)
	}
	if result.Requests != 8 || len(result.Limits) != 4 || result.Limits[3].Limit != "GCRA 2/s BURST 5" {
		t.Errorf("got %+v", result)
	}
	html, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(html, []byte("older.csv, ")) || !bytes.Contains(html, []byte("<svg")) {
		t.Errorf("the page: %v, %d bytes", err, len(html))
	}
}

func TestSimulateTellsBadLines(t *testing.T) {
	trace := "1,a\n" + strings.Repeat("x,y\n", 7)
	out, errOut, status := simulateRun(t, trace, "--limit", "gcra 1/s", "-")
	if status != 0 || !strings.Contains(out, "7 bad lines of 8 left out") ||
		strings.Count(errOut, "neither Unix time") != 5 || !strings.Contains(errOut, "-: line 2: ") || !strings.Contains(errOut, "only counted") {
		t.Errorf("status %d\n%s\n%s", status, out, errOut)
	}
	if _, errOut, _ = simulateRun(t, trace, "--limit", "gcra 1/s", "--quiet", "-"); errOut != "" {
		t.Errorf("--quiet: %s", errOut)
	}
	if _, errOut, status = simulateRun(t, trace, "--limit", "gcra 1/s", "--strict", "-"); status != 1 || !strings.Contains(errOut, "-: line 2: ") {
		t.Errorf("--strict: status %d, %s", status, errOut)
	}
}

func TestSimulateErrors(t *testing.T) {
	for _, test := range []struct {
		args   string // separated by "|"
		stdin  string
		status int
		want   string
	}{
		{"-", short, 2, "give a --limit"},
		{"--limit|gcra 1/s", short, 2, "name a file"},
		{"--limit|bucket 1/s|-", short, 2, `--limit "bucket 1/s": unknown algorithm: "bucket"`},
		{"--limit|gcra 1/s burst|-", short, 2, `a value is missing after "burst"`},
		{"--sweep|10|-", short, 2, `--sweep: "10" is not a list of rates`},
		{"--sweep|10/m|--algorithm|bucket|-", short, 2, `unknown algorithm: "bucket"; there are GCRA, TOKEN, LEAKY, `},
		{"--limit|gcra 1/s|--algorithm|gcra|-", short, 2, "--algorithm works only with --sweep"},
		{"--limit|gcra 1/s|--format|xml|-", short, 2, `unknown format "xml"`},
		{"--limit|gcra 1/s|--unit|h|-", short, 2, `unknown unit "h"`},
		{"--limit|gcra 1/s|--colour|-", short, 2, "unknown flag: --colour"},
		{"--limit|gcra 1/s|no-such-file", "", 1, "no-such-file: no such file or directory"},
		{"--limit|gcra 1/s|.", "", 1, ".: "},
		{"--limit|gcra 1/s|-", "", 1, "-: there are no lines"},
		{"--limit|gcra 1/s|-", "hello\n", 1, "do not show the format"},
		{"--limit|gcra 1/s|--format|csv|--time|1|--key|2|-", "hello\nworld\n", 1, "standard input has no request: -: line 2: "},
		{"--limit|gcra 1/s|--key|user|-", short, 1, `no column "user"`},
		{"--limit|gcra 1/s|--html|no/such/folder.html|-", short, 1, "no/such/folder.html"},
	} {
		_, errOut, status := simulateRun(t, test.stdin, strings.Split(test.args, "|")...)
		if status != test.status || !strings.Contains(errOut, test.want) {
			t.Errorf("%s: status %d, %s; want %d, %s", test.args, status, errOut, test.status, test.want)
		}
	}
}

func TestSimulateOneCallerForAll(t *testing.T) {
	out, _, status := simulateRun(t, short, "--limit", "gcra 1/h", "--key", "", "-")
	if status != 0 || !strings.Contains(out, "7 requests of 1 caller in") {
		t.Errorf("status %d\n%s", status, out)
	}
}

// The example of docs/simulate.md with costs that are known afterwards prints what the page says.
func TestSimulateGuide(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "simulate.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```csv tokens.csv\n")
	trace, rest, more := strings.Cut(rest, "```\n")
	_, rest, begins := strings.Cut(rest, "```\n$ limitdb simulate ")
	command, rest, _ := strings.Cut(rest, "\n")
	want, _, ends := strings.Cut(rest, "```\n")
	if !ok || !more || !begins || !ends {
		t.Fatal("the page has no such example")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	var args []string
	for i, part := range strings.Split(command, `"`) { // every second one is quoted
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	args[len(args)-1] = filepath.Join(dir, args[len(args)-1])
	if out, errOut, status := simulateRun(t, "", args...); status != 0 || out != want {
		t.Errorf("status %d, %s\n%s\nwant\n%s", status, errOut, out, want)
	}
}

func TestSimulateActualCosts(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--actual", "4"}, "go together"},
		{[]string{"--took", "4"}, "go together"},
		{[]string{"--actual", "4", "--took", "5", "--hold-ttl", "x"}, "--hold-ttl: "},
		{[]string{"--actual", "4", "--took", "5", "--hold-ttl", "2h"}, "at most 1 hour"},
		{[]string{"--actual", "4", "--took", "5", "--on-expire", "drop"}, "it is keep or return"},
	} {
		if _, errOut, status := simulateRun(t, "0,a,1,1,1\n", append(test.args, "--limit", "gcra 1/s", "-")...); status != 2 || !strings.Contains(errOut, test.want) {
			t.Errorf("%q: status %d, %s, want %s", test.args, status, errOut, test.want)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text := "{version: 1, namespaces: {two: [{name: a, limit: 1/s, cost: x}, {name: b, limit: 1/s, cost: y}], one: [" +
		"{name: tokens, key: [tenant], limit: fixed 10/h first, cost: tokens}, {name: requests, key: [tenant], limit: fixed 4/h first}, {name: flight, in_flight: 1, lease: 1m}]}}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const trace = "time,tenant,tokens,used,took\n0,a,6,2,1s\n1,a,8,1,1s\n1.5,a,1,1,1s\n3,a,7,-,\n70,a,7,12,1s\n"
	with := []string{"--rules", file, "--actual", "used", "--took", "took", "-"}
	if _, errOut, status := simulateRun(t, trace, append(with, "--namespace", "two")...); status != 2 || !strings.Contains(errOut, "from several fields: x, y") {
		t.Errorf("status %d, %s", status, errOut)
	}
	if _, errOut, status := simulateRun(t, trace, append(with, "--namespace", "one", "--hold-ttl", "2h")...); status != 2 || !strings.Contains(errOut, "at most 1 hour") {
		t.Errorf("status %d, %s", status, errOut)
	}
	// The third comes while one is in flight, and the fifth finds what the fourth held and nobody settled.
	want := `5 requests, 2 denied, 0 that no rule limits, 0 lines that are not requests

rule      mode     matched  denied  in shadow mode  candidate
tokens    enforce  5        2       0               0
requests  enforce  5        0       0               0
flight    enforce  5        1       0               0

rule      held  returned  over  expired
tokens    21    11        0     1
requests  3     0         0     1
flight    0     0         0     0
`
	if out, errOut, status := simulateRun(t, trace, append(with, "--namespace", "one")...); status != 0 || out != want {
		t.Errorf("status %d, %s\n%s", status, errOut, out)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if out, errOut, status := simulateRun(t, trace, append(with, "--namespace", "one", "--on-expire", "return", "--hold-ttl", "20s", "--html", page)...); status != 0 ||
		!strings.HasSuffix(out, "tokens    28    18        5     1\nrequests  4     1         0     1\nflight    0     0         0     0\n") {
		t.Errorf("status %d, %s\n%s", status, errOut, out)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "What was held") {
		t.Errorf("%v, %s", err, html)
	}
	out, errOut, status := simulateRun(t, "0,a,5,2,1s\n2,a,8,8,0\n", "--limit", "fixed 10/h first", "--json", "--actual", "4", "--took", "5", "-")
	if status != 0 || !strings.Contains(out, `"returned": 3`) || !strings.Contains(out, `"denied": 0`) {
		t.Errorf("status %d, %s\n%s", status, errOut, out)
	}
}
