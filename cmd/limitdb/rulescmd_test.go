package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"limitdb/cmd/limitdb/cli"
	"limitdb/rules"
)

// runRules runs limitdb rules, and returns what it prints.
func runRules(t *testing.T, args ...string) (out, errOut string) {
	t.Helper()
	root := commands()
	var stdout, stderr bytes.Buffer
	root.SetArgs(append([]string{"rules"}, args...))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	if err := root.Execute(); err != nil {
		stderr.WriteString("error: " + err.Error() + "\n")
	}
	return stdout.String(), stderr.String()
}

// written writes a file into a directory of the test.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const shopRules = "../../rules/testdata/shop.yaml"

func TestRulesCheck(t *testing.T) {
	one := written(t, "one.yaml", "- {namespace: shop, fields: {user: u, path: /x}, want: allowed}\n")
	if out, errOut := runRules(t, "test", shopRules, one); out != "1 case passes\n" || errOut != "" {
		t.Errorf("%s%s", out, errOut)
	}
	bad := written(t, "bad.yaml", "version: 1\nnamespaces:\n  a:\n    - {name: x}\n    - {nam: x, limit: 1/s}\n")
	out, errOut := runRules(t, "check", shopRules, bad)
	if out != shopRules+": 6 rules in 1 namespace\n" || errOut != bad+":4:7: rule \"x\" needs a limit, a plan, or unlimited\n"+bad+":5:7: a rule has no \"name\"\n"+bad+":5:8: a rule has no field \"nam\"; did you mean \"name\"?\nerror: 3 mistakes\n" {
		t.Errorf("%s\n%s", out, errOut)
	}
	if out, _ := runRules(t, "check", "--schema"); out != string(rules.Schema()) {
		t.Error("no schema")
	}
	for _, args := range [][]string{{"check"}, {"check", "no such file"}, {"check", t.TempDir()}} {
		if _, errOut := runRules(t, args...); errOut == "" {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestRulesExplain(t *testing.T) {
	out, _ := runRules(t, "explain", shopRules, "shop", "user=healthcheck", "path=/login", "ip=2001:db8::1", "colour=red")
	want := `no rule looks at the field colour
global: limits all callers together to GCRA 20000/s, cost 1
checkout: does not apply: the field method is missing
user-api: does not limit the caller (override 2)
user-day: limits the caller ["healthcheck"] to FIXED 1000 CALENDAR DAY TZ Europe/Berlin (plan free), cost 1
login-ip: in shadow mode limits the caller ["2001:db8::/64"] to LOG 5/m, cost 1
exports: does not apply: the field tenant of its key is missing
in slot 11976: global
in slot 14983: user-day
in slot 6261: login-ip
`
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	groups := written(t, "groups.yaml", `{version: 1, namespaces: {a: [
  {exclusive: true, rules: [{name: p, match: {t: p}, unlimited: true}, {name: s, match: {path: /s*}, limit: 5/s}, {name: o, limit: 20/s}]},
  {name: u, unlimited: true}, {exclusive: true, rules: [{name: q, limit: 1/s}]}]}}`)
	const last = "u: does not limit the caller\nq: limits all callers together to GCRA 1/s, cost 1\n"
	slots := map[string]string{"t=p": "in slot 1337: q\n", "path=/s": "in slot 9595: s\nin slot 1337: q\n"}
	for field, want := range map[string]string{
		"t=p":     "p: does not limit the caller\ns: does not apply: the field path is missing\no: does not apply: p comes first in its group\n",
		"path=/s": "p: does not apply: the field t is missing\ns: limits all callers together to GCRA 5/s, cost 1\no: does not apply: s comes first in its group\n",
	} {
		if out, _ := runRules(t, "explain", groups, "a", field); out != want+last+slots[field] {
			t.Errorf("%s: got\n%swant\n%s", field, out, want+last+slots[field])
		}
	}
	for _, args := range [][]string{{"explain", shopRules, "none"}, {"explain", shopRules, "shop", "user"}, {"explain", shopRules, "shop", "user=a", "user=b"}} {
		if _, errOut := runRules(t, args...); !strings.HasPrefix(errOut, "error: ") {
			t.Errorf("%v: %s", args, errOut)
		}
	}
}

// TestRulesExplainSlots checks where the keys of callers are said to be.
func TestRulesExplainSlots(t *testing.T) {
	file := written(t, "shards.yaml", `{version: 1, namespaces: {
  a: {shard_by: u, rules: [{name: all, limit: 9/s}, {name: x, key: [u], limit: 1/s, candidate: 2/s}, {name: y, key: [v, u], limit: 1/s}]},
  b: [{name: x, key: [u], limit: 1/s}]}}`)
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ args, want string }{
		{"a u=acme v=1", "in slot 11989: all\nin slot 11304: x, y\n"},
		{"--groups 64 a u=acme v=1", "in slot 11989, group 47: all\nin slot 11304, group 45: x, y\n"},
		{"--groups 1 a u=acme v=" + long, "in slot 11989, group 1: all\nin slot 11304, group 1: x, y\n"},
		{"a v=1 u=" + long, "in slot 11989: all\nin a slot that only the server knows, since a value is too long: x, y\n"},
		{"b u=" + long, "in a slot that only the server knows, since a value is too long: x\n"},
		{"a none=1", "in slot 11989: all\n"},
	} {
		words := append([]string{"explain"}, strings.Fields(c.args)...)
		at := len(words) - len(strings.Fields(c.args))
		if c.args[0] == '-' {
			at += 2
		}
		out, errOut := runRules(t, slices.Insert(words, at, file)...)
		if i := strings.Index(out, "in "); i < 0 || !strings.HasSuffix(out, c.want) || errOut != "" {
			t.Errorf("%.40s: got\n%s%s", c.args, out, errOut)
		}
	}
	for _, word := range []string{"=x", "u"} {
		if _, errOut := runRules(t, "explain", file, "b", word); !strings.Contains(errOut, strconv.Quote(word)+" is not field=value") {
			t.Errorf("%s: %s", word, errOut)
		}
	}
	for _, n := range []string{"0", "3", "128", "-1"} {
		if _, errOut := runRules(t, "explain", "--groups", n, file, "b"); !strings.Contains(errOut, "--groups must be a power of two from 1 to 64") {
			t.Errorf("%s: %s", n, errOut)
		}
	}
}

func TestRulesTest(t *testing.T) {
	good := written(t, "good.yaml", "- {namespace: shop, fields: {user: u, path: /x}, repeat: 20, want: allowed}\n- {namespace: shop, fields: {user: u, path: /x}, want: limited, rule: user-api}\n")
	if out, errOut := runRules(t, "test", shopRules, good, good); out != "4 cases pass\n" || errOut != "" {
		t.Errorf("%s%s", out, errOut)
	}
	bad := written(t, "bad.yaml", "- {namespace: shop, fields: {user: u, path: /x}, repeat: 21, want: allowed}\n")
	if _, errOut := runRules(t, "test", shopRules, bad); errOut != bad+":1: want allowed, got limited by user-api for 1s, 0 of 20 left\nerror: 1 of 1 cases fail\n" {
		t.Error(errOut)
	}
}

func TestRulesImport(t *testing.T) {
	file := written(t, "envoy.yaml", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5}, detailed_metric: true}]\n")
	out, errOut := runRules(t, "import", "--from", "envoy", file)
	if want := "version: 1\nnamespaces:\n  d:\n    - name: k\n      key: [k]\n      limit: fixed 5/1d countdenied\n"; out != want || errOut != file+": line 2: detailed_metric is not carried over\n" {
		t.Errorf("%s%s", out, errOut)
	}
	if _, errOut := runRules(t, "import", "--from", "other", file); !strings.Contains(errOut, "use envoy or limitador") {
		t.Error(errOut)
	}
	var code cli.ExitCode
	if err := run([]string{"rules", "import", file}); !errors.As(err, &code) || code != 2 {
		t.Error(err)
	}
}

// TestRulesOfEnvoy checks and tests a file of Envoy's rate limit service.
func TestRulesOfEnvoy(t *testing.T) {
	file := written(t, "edge.yaml", "domain: edge\ndescriptors:\n  - {key: ip, rate_limit: {unit: minute, requests_per_unit: 2, name: address, shadow_mode: true}}\n")
	out, errOut := runRules(t, "check", "--envoy", file)
	if out != file+": 1 limit in 1 tree of descriptors\n" || errOut != file+": line 3: shadow_mode has no effect in rate_limit\n" {
		t.Errorf("%s\n%s", out, errOut)
	}
	bad := written(t, "bad.yaml", "domain: edge\ndescriptors: [{kye: ip}]\n")
	if _, errOut := runRules(t, "check", "--envoy", bad); !strings.HasPrefix(errOut, bad+":2:15: a descriptor has no \"key\"\n"+bad+":2:16: a descriptor has no field \"kye\"") {
		t.Error(errOut)
	}
	both := written(t, "both.yaml", "version: 1\nnamespaces: {a: [{name: x, limit: 1/s}], b: {descriptors: []}}\n")
	if out, _ := runRules(t, "check", both); out != both+": 1 rule in 1 namespace, 0 limits in 1 tree of descriptors\n" {
		t.Error(out)
	}
	cases := written(t, "cases.yaml", `
- {namespace: edge, descriptors: [{entries: [{key: ip, value: a}]}], repeat: 2, want: allowed, rule: address, remaining: 0}
- {namespace: edge, descriptors: [{entries: [{key: ip, value: a}]}], want: limited}
- {namespace: edge, descriptors: [{entries: [{key: ip, value: a}]}], at: 1m, want: limited}
`)
	out, errOut = runRules(t, "test", "--envoy", file, cases)
	if out != "" || errOut != cases+":4: want limited, got allowed; descriptor 1: 1 of 2 per MINUTE left of address\nerror: 1 of 3 cases fail\n" {
		t.Errorf("%s\n%s", out, errOut)
	}
}
