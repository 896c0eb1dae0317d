package main

import (
	"strings"
	"testing"
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
		expected := want
		if name == "csv" { // an empty value is a value
			expected = strings.Replace(want, "enforce  5", "enforce  6", 1)
		}
		if status != 0 || out != expected {
			t.Errorf("%s: %d\n%s%s", name, status, out, errOut)
		}
	}
	log := `192.0.2.1 - bob [10/Oct/2000:13:55:36 +0000] "GET /x HTTP/1.0" 200 23` + "\n"
	if out, errOut, _ := simulateRun(t, log+log+log, "--rules", file, "--json", "-"); !strings.Contains(out, `"denied": 1,`) || !strings.Contains(out, `"shadow_denied": 2`) {
		t.Errorf("%s%s", out, errOut)
	}
	if out, _, _ := simulateRun(t, "time,path,n\n0,/x,1\n", "--rules", file, "-"); !strings.HasSuffix(out, "\n\nNo request has these fields: addr, user. If the trace names one otherwise, say so: --field addr=NAME\n") {
		t.Error(out)
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
