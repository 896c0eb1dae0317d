package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"limitdb/rules"
)

func TestSimulateRules(t *testing.T) {
	file := written(t, "rules.yaml", `
version: 1
namespaces:
  a:
    - {name: all, limit: 4/s}
    - {name: user, key: [user], limit: 2/s, candidate: 1/s}
    - {name: path, match: {path: /x*}, key: [addr], limit: 1/s, mode: shadow}
`)
	want := `6 requests, 2 denied, 0 that no rule limits, 1 lines that are not requests

rule  mode     matched  denied  in shadow mode  candidate
all   enforce  6        0       0               0
user  enforce  5        2       0               4
path  shadow   3        0       2               0
`
	csv := "time,addr,path,name\n0,i,/x1,u\n0,i,/x2,u\n0,i,/x3,u\n0,i,/y,u\n0,i,/y,\nbad,i,/y,u\n0.6,j,/z,u\n"
	for name, trace := range map[string]string{
		"csv": csv,
		"json": `{"time":0,"addr":"i","path":"/x1","name":"u"}` + "\n" + `{"time":0,"addr":"i","path":"/x2","name":"u"}` + "\n" +
			`{"time":0,"addr":"i","path":"/x3","name":"u"}` + "\n" + `{"time":0,"addr":"i","path":"/y","name":"u"}` + "\n" +
			`{"time":0,"addr":"i","path":"/y"}` + "\n{\n" + `{"time":0.6,"addr":"j","path":"/z","name":"u"}` + "\n",
	} {
		out, errOut, status := simulateRun(t, trace, "--rules", file, "--field", "user=name", "-")
		if status != 0 || out != want { // the request whose name is empty has none
			t.Errorf("%s: %d\n%s%s", name, status, out, errOut)
		}
		out, errOut, _ = simulateRun(t, trace, "--rules", file, "--field", "user=name", "--anonymous", "-")
		expected := want
		if name == "csv" { // there, an empty value is a value
			expected = strings.Replace(want, "enforce  5", "enforce  6", 1)
		}
		if out != expected {
			t.Errorf("%s, --anonymous:\n%s%s", name, out, errOut)
		}
	}
	log := `192.0.2.1 - bob [10/Oct/2000:13:55:36 +0000] "GET /x HTTP/1.0" 200 23` + "\n"
	if out, errOut, _ := simulateRun(t, log+log+log, "--rules", file, "--json", "-"); !strings.Contains(out, `"denied": 1,`) || !strings.Contains(out, `"shadow_denied": 2`) {
		t.Errorf("%s%s", out, errOut)
	}
	if out, _, _ := simulateRun(t, "time,path,n\n0,/x,1\n", "--rules", file, "-"); !strings.HasSuffix(out, "\n\nNo request has these fields: addr, user. If the trace has another name for one, give it: --field addr=NAME\n") {
		t.Error(out)
	}
	var rule, request strings.Builder
	for i := range rules.MaxFields {
		fmt.Fprintf(&rule, "f%d, ", i)
		fmt.Fprintf(&request, `, "f%d": "v"`, i)
	}
	wide := written(t, "wide.yaml", "version: 1\nnamespaces: {a: [{name: r, key: ["+rule.String()+"], limit: 2/m}]}\n")
	if out, errOut, _ := simulateRun(t, strings.Repeat(`{"time": 0`+request.String()+"}\n", 3), "--rules", wide, "-"); !strings.HasPrefix(out, "3 requests, 1 denied, 0 ") {
		t.Errorf("%s%s", out, errOut)
	}
	// The keys in a log of decisions are those of rules' callers.
	if out, errOut, _ := simulateRun(t, strings.Repeat(`{"time": 0, "key": "\u0000rlaAbc:shop:day:u1"}`+"\n", 3), "--limit", "gcra 1/m", "-"); !strings.Contains(out, "shop/day u1 (2 of 3 denied)") {
		t.Errorf("%s%s", out, errOut)
	}
	for _, args := range [][]string{
		{"--rules", file, "--limit", "1/s", "-"},
		{"--rules", file, "--namespace", "b", "-"},
		{"--rules", file, "--field", "nobody=x", "-"},
		{"--rules", file + "x", "-"},
	} {
		if _, errOut, status := simulateRun(t, csv, args...); status != 2 || errOut == "" {
			t.Errorf("%v: %d %s", args, status, errOut)
		}
	}
}

// A rule denies what its limit by itself denies, also where denied requests count.
func TestSimulateRulesAsLimits(t *testing.T) {
	var trace strings.Builder
	trace.WriteString("time,user\n")
	for i := range 300 {
		fmt.Fprintf(&trace, "%d,u%d\n", i*i%97+i*2, i%3)
	}
	for _, limit := range []string{"fixed 5/m countdenied", "sliding 5/m countdenied", "segmented 5/m segments 6 countdenied", "log 5/m countdenied", "log 5/m"} {
		file := written(t, "rules.yaml", "version: 1\nnamespaces: {a: [{name: r, key: [user], limit: "+limit+"}]}\n")
		denied := func(args ...string) string {
			out, errOut, status := simulateRun(t, trace.String(), append(args, "--json", "-")...)
			if status != 0 {
				t.Fatal(errOut)
			}
			_, n, _ := strings.Cut(out, `"denied": `)
			n, _, _ = strings.Cut(n, ",")
			return n
		}
		if by, rule := denied("--limit", limit, "--key", "user"), denied("--rules", file); by != rule || by == "0" {
			t.Errorf("%s: the limit denies %s, the rule %s", limit, by, rule)
		}
	}
}

// A caller that is "-" or empty is none, unless it is asked for: the visitors of a site who have not logged in are not one user.
func TestSimulateWithoutCallers(t *testing.T) {
	const line = ` [10/Oct/2000:13:55:36 +0000] "GET /x HTTP/1.0" 200 23` + "\n"
	log := strings.Repeat("192.0.2.1 - -"+line, 3) + strings.Repeat("192.0.2.1 - bob"+line, 3)
	file := written(t, "rules.yaml", "version: 1\nnamespaces: {a: [{name: r, key: [user], limit: 2/m}]}\n")
	for _, tt := range []struct {
		name, trace string
		args        []string
		want        string
	}{
		{"access", log, []string{"--limit", "gcra 2/m", "--key", "user"}, "3 requests of 1 caller in 0 ns, from 2000-10-10T13:55:36Z\n3 requests without a caller left out\n"},
		{"access, anonymous", log, []string{"--limit", "gcra 2/m", "--key", "user", "--anonymous"}, "6 requests of 2 callers in 0 ns, from 2000-10-10T13:55:36Z\n\n"},
		{"several fields", log, []string{"--limit", "gcra 2/m", "--key", "addr user"}, "6 requests of 2 callers in 0 ns"},
		{"one caller for all", log, []string{"--limit", "gcra 2/m", "--key", ""}, "6 requests of 1 caller in 0 ns"},
		{"csv", "time,user\n1,\n1,-\n1,u\n", []string{"--limit", "gcra 2/m", "--key", "user", "--strict"}, "1 request of 1 caller in 0 ns, from 1970-01-01T00:00:01Z\n2 requests without a caller left out\n"},
		{"csv, anonymous", "time,user\n1,\n1,-\n1,u\n", []string{"--limit", "gcra 2/m", "--key", "user", "--anonymous"}, "3 requests of 3 callers in 0 ns"},
		{"json", `{"time":1,"key":""}` + "\n" + `{"time":1,"key":"-"}` + "\n" + `{"time":1,"key":"u"}`, []string{"--limit", "gcra 2/m"}, "1 request of 1 caller in 0 ns, from 1970-01-01T00:00:01Z\n2 requests without a caller left out\n"},
		{"rules", log, []string{"--rules", file}, "6 requests, 1 denied, 3 that no rule limits, "},
		{"rules, anonymous", log, []string{"--rules", file, "--anonymous"}, "6 requests, 2 denied, 0 that no rule limits, "},
	} {
		if out, errOut, status := simulateRun(t, tt.trace, append(tt.args, "-")...); status != 0 || !strings.HasPrefix(out, tt.want) {
			t.Errorf("%s: %d\n%s%s", tt.name, status, out, errOut)
		}
	}
	_, errOut, status := simulateRun(t, "time,user\n1,-\n", "--limit", "gcra 2/m", "--key", "user", "-")
	if status != 1 || !strings.Contains(errOut, `no request of standard input has a caller: the fields of the key are empty or "-" (--anonymous makes that a caller)`) {
		t.Errorf("%d %s", status, errOut)
	}
}

// cell finds the cells of a row of a page.
var cell = regexp.MustCompile(`<t[dh] role="[a-z]+">([^<]*)</t[dh]>`)

// TestSimulateRulesPage checks that the page has the figures of the text, the callers with theirs, a place of each row in each
// order, and hostile names as texts.
func TestSimulateRulesPage(t *testing.T) {
	file := written(t, "rules.yaml", `
version: 1
namespaces:
  a:
    - {name: all, limit: 9/s}
    - {name: user, key: [user], limit: 2/s, candidate: 1/s}
    - {name: path, key: [addr], limit: 1/s, mode: shadow}
`)
	hostile := `"<script>alert(1)</script>"`
	trace := "time,addr,user\n" + strings.Repeat("0,i,u\n", 4) + strings.Repeat("0,</style>,"+hostile+"\n", 5) + "0,j,\x1b[2J\n"
	page := filepath.Join(t.TempDir(), "page.html")
	out, errOut, status := simulateRun(t, trace, "--rules", file, "--html", page, "-")
	if status != 0 {
		t.Fatal(errOut)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(b)) {
		var row []string
		for _, m := range cell.FindAllStringSubmatch(line, -1) {
			row = append(row, html.UnescapeString(m[1]))
		}
		if row != nil {
			rows = append(rows, row)
		}
	}
	text := regexp.MustCompile("  +")
	for i, line := range strings.Split(strings.TrimSpace(out), "\n")[2:] {
		if want := text.Split(strings.TrimSpace(line), -1); !slices.Equal(rows[i], want) {
			t.Errorf("row %d: %q, in the text %q", i, rows[i], want)
		}
	}
	want := [][]string{
		{"caller", "rule", "matched", "denied", "in shadow mode", "candidate"},
		{"<script>alert(1)</script>", "user", "5", "3", "0", "4"},
		{"u", "user", "4", "2", "0", "3"},
		{"</style>", "path", "5", "0", "4", "0"},
		{"i", "path", "4", "0", "3", "0"},
	}
	if got := rows[4:]; !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("callers: %q", got)
	}
	for _, place := range []string{
		`style="--o0:2;--o1:3;--o2:2;--o3:2;--o4:1;--o5:3;--o6:1;"><td role="cell">user</td>`,                                      // user is after path by name, and first by what it denies
		`style="--o0:1;--o1:6;--o2:6;--o3:6;--o4:6;--o5:6;--o6:6;" class="group"><td role="cell" class="group">user, enforce</td>`, // heads are last where they are not shown
		`style="--o0:5;--o1:1;--o2:1;--o3:2;--o4:3;--o5:1;--o6:3;"><td role="cell">&lt;/style&gt;</td>`,
	} {
		if !strings.Contains(string(b), place) {
			t.Errorf("the page lacks %s", place)
		}
	}
	for _, bad := range []string{"<script", "<img", "<link", "@import", "url(", "ZgotmplZ", "\x1b"} {
		if strings.Contains(string(b), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if n := strings.Count(string(b), "</style>"); n != 1 || !strings.Contains(string(b), "default-src 'none'; style-src 'unsafe-inline'") {
		t.Errorf("%d ends of a style", n)
	}
	if out, _, _ := simulateRun(t, trace, "--rules", file, "--json", "-"); !strings.Contains(out, `"caller": "\u003c/style\u003e",
          "matched": 5,`) {
		t.Error(out)
	}
}
