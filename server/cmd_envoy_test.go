package server

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"limitdb/internal/stats"
)

// TestEnvoyByRules asks for the descriptors of Envoy's service in a namespace of ordinary rules.
func TestEnvoyByRules(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {edge: [
		{name: ip, key: [remote_address], limit: fixed 2/m},
		{name: slow, match: {path: /slow}, limit: 1/s},
		{name: half, match: {path: /half}, limit: 1/500ms},
		{name: quiet, match: {path: /quiet}, limit: 0/s, mode: shadow},
		{name: free, match: {path: /free}, unlimited: true}]}}`)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.ENVOY edge 1 1 remote_address a", `[0 [[0 2 "MINUTE" "ip" 1 20]]]`},
		// Each is judged by itself, the second after the first; what one denies does not undo the others.
		[2]string{"RL.ENVOY edge 3 1 remote_address a 1 remote_address a 1 path /slow", `[1 [[0 2 "MINUTE" "ip" 0 20] [1 2 "MINUTE" "ip" 0 20] [0 1 "SECOND" "slow" 0 1]]]`},
		[2]string{"RL.ENVOY edge 1 1 path /slow HITS 0", `[0 [[0 1 "SECOND" "slow" 0 1]]]`},
		[2]string{"RL.ENVOY edge 1 1 path /half", `[0 [[0 1 "UNKNOWN" "half" 0 1]]]`},
		[2]string{"RL.ENVOY edge 1 1 remote_address a HITS 1 REFUND", `[0 [[0 2 "MINUTE" "ip" 1 20]]]`},
		[2]string{"RL.ENVOY edge 1 1 remote_address a HITS 2", `[1 [[1 2 "MINUTE" "ip" 1 20]]]`},
		// Nothing limits these.
		[2]string{"RL.ENVOY edge 3 1 path /quiet 1 path /free 0", `[0 [[0 -1 "" "" 0 -1] [0 -1 "" "" 4294967295 -1] [0 -1 "" "" 0 -1]]]`},
		[2]string{"RL.ENVOY nowhere 2 1 remote_address a 0", `[0 [[0 -1 "" "" 0 -1] [0 -1 "" "" 0 -1]]]`},
		// What is wrong.
		[2]string{"RL.ENVOY edge 0", `-ERR numdescriptors must be an integer from 1 to 1024: "0"`},
		[2]string{"RL.ENVOY edge 1", `-ERR numentries is missing (descriptor 1)`},
		[2]string{"RL.ENVOY edge 1 2 a b", `-ERR numentries must be an integer, and that many keys and values must follow (descriptor 1)`},
		[2]string{"RL.ENVOY edge 2 1 a b -1", `-ERR numentries must be an integer, and that many keys and values must follow (descriptor 2)`},
		[2]string{"RL.ENVOY edge 1 9223372036854775807 a b", `-ERR numentries must be an integer, and that many keys and values must follow (descriptor 1)`},
		[2]string{"RL.ENVOY edge 1 1 a b HITS -1", `-ERR HITS must be an integer from 0 to 9223372036854775807: "-1" (descriptor 1)`},
		[2]string{"RL.ENVOY edge 1 1 a b 7", `-ERR syntax error: there is more after the last descriptor: "7"`},
		[2]string{"RL.ENVOY edge 1 1 a b LIMIT 1", `-ERR syntax error: there is more after the last descriptor: "LIMIT"`},
		[2]string{"RL.ENVOY edge 1 2 path /slow path /slow", `-ERR field "path": given twice (descriptor 1)`},
		[2]string{"RL.ENVOY edge 1 1 path /slow LIMIT 1 DAY", `-ERR LIMIT needs a domain with descriptors: the rules of a namespace have their own limits (descriptor 1)`},
	)
}

// TestEnvoyInTransaction asks in EXEC and in a script.
func TestEnvoyInTransaction(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {edge: [{name: ip, key: [remote_address], limit: fixed 2/m}]}}`)
	c := ts.client()
	c.steps(ts,
		[2]string{"MULTI", `OK`},
		[2]string{"RL.ENVOY edge 1 1 remote_address a", `QUEUED`},
		[2]string{"RL.ENVOY edge 1 1 remote_address a", `QUEUED`},
		[2]string{"EXEC", `[[0 [[0 2 "MINUTE" "ip" 1 20]]] [0 [[0 2 "MINUTE" "ip" 0 20]]]]`},
		[2]string{"RL.ENVOY edge 1 1 remote_address a HITS 0", `[0 [[0 2 "MINUTE" "ip" 0 20]]]`},
	)
}

// TestEnvoyByTree asks in a domain with a tree of descriptors. The clock is 20 s before the end of its minute.
func TestEnvoyByTree(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {edge: {descriptors: [
		{key: ip, rate_limit: {unit: minute, requests_per_unit: 2, name: per-ip}},
		{key: path, value: /slow, rate_limit: {unit: second, requests_per_unit: 1}},
		{key: path, value: /quiet, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}},
		{key: path, value: /free, rate_limit: {unlimited: true}}]}}}`)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.ENVOY edge 1 1 ip a", `[0 [[0 2 "MINUTE" "per-ip" 1 20]]]`},
		[2]string{"RL.ENVOY edge 3 1 ip a 1 ip a 1 path /slow", `[1 [[0 2 "MINUTE" "per-ip" 0 20] [1 2 "MINUTE" "per-ip" 0 20] [0 1 "SECOND" "" 0 1]]]`},
		[2]string{"RL.ENVOY edge 3 1 path /quiet 1 path /free 1 path /other", `[0 [[0 0 "HOUR" "" 0 2000] [0 -1 "" "" 4294967295 -1] [0 -1 "" "" 0 -1]]]`},
		// Denials count, as there: three were taken, so one that is given back leaves nothing, and two leave one.
		[2]string{"RL.ENVOY edge 1 1 ip a HITS 1 REFUND", `[0 [[0 2 "MINUTE" "per-ip" 0 20]]]`},
		[2]string{"RL.ENVOY edge 1 1 ip a HITS 1 REFUND", `[0 [[0 2 "MINUTE" "per-ip" 1 20]]]`},
		[2]string{"RL.ENVOY edge 1 1 ip a HITS 0", `[0 [[0 2 "MINUTE" "per-ip" 1 20]]]`},
		[2]string{"RL.ENVOY edge 1 1 ip b HITS 9223372036854775807", `[1 [[1 2 "MINUTE" "per-ip" 0 20]]]`},
		[2]string{"RL.ENVOY edge 1 1 ip c LIMIT 5 hour", `[0 [[0 5 "HOUR" "" 4 2000]]]`},
		[2]string{"RL.ENVOY edge 1 1 ip c LIMIT 5 fortnight", `-ERR LIMIT needs a unit, SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR, not "fortnight" (descriptor 1)`},
		[2]string{"RL.ENVOY edge 1 1 ip c LIMIT 4294967296 hour", `-ERR LIMIT must have from 0 to 4294967295 requests: "4294967296" (descriptor 1)`},
		[2]string{"+20s", ""},
		[2]string{"RL.ENVOY edge 1 1 ip a", `[0 [[0 2 "MINUTE" "per-ip" 1 60]]]`},
		[2]string{"MULTI", `OK`},
		[2]string{"RL.ENVOY edge 1 1 ip a", `QUEUED`},
		[2]string{"RL.ENVOY edge 1 1 ip z", `QUEUED`},
		[2]string{"EXEC", `[[0 [[0 2 "MINUTE" "per-ip" 0 60]]] [0 [[0 2 "MINUTE" "per-ip" 1 60]]]]`},
	)
}

// TestEnvoyCounts counts hits as Envoy's service does.
func TestEnvoyCounts(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {edge: {descriptors: [
		{key: ip, rate_limit: {unit: minute, requests_per_unit: 10}},
		{key: path, value: /a, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}},
		{key: user, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 1}}]}}}`)
	c := ts.client()
	c.do("RL.ENVOY", "edge", "1", "1", "ip", "a")
	if got := ts.rules.EnvoyLimits(); len(got) != 0 {
		t.Errorf("while envoy-metrics is off: %v", got)
	}
	c.do("CONFIG", "SET", "envoy-metrics", "yes")
	for _, hits := range []string{"6", "2", "3", "0"} { // to 7, 9, and over
		c.do("RL.ENVOY", "edge", "1", "1", "ip", "a", "HITS", hits)
	}
	c.do("RL.ENVOY", "edge", "1", "1", "ip", "a", "HITS", "3", "REFUND")
	c.do("RL.ENVOY", "edge", "3", "1", "path", "/a", "1", "path", "/a", "1", "path", "/b")
	want := map[string]stats.EnvoyLimit{"edge.ip": {Total: 11, Within: 8, Near: 2, Over: 2}, "edge.path_/a": {Total: 2, Within: 1, Near: 1, Over: 1, Shadow: 1}}
	if got := ts.rules.EnvoyLimits(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for i := range 2000 {
		c.do("RL.ENVOY", "edge", "1", "1", "user", strconv.Itoa(i))
	}
	c.do("RL.ENVOY", "edge", "1", "1", "ip", "b")
	if got := ts.rules.EnvoyLimits(); len(got) != 1000 || got["edge.ip"].Total != 12 {
		t.Errorf("%d names, %v", len(got), got["edge.ip"])
	}
}

// TestEnvoyAllOrNone asks in a domain whose limits take together or not at all.
func TestEnvoyAllOrNone(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {edge: {all_or_none: true, descriptors: [
		{key: ip, rate_limit: {unit: minute, requests_per_unit: 3, name: ip}},
		{key: user, rate_limit: {unit: minute, requests_per_unit: 1, name: user}}]}}}`)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.ENVOY edge 2 1 ip a 1 user u", `[0 [[0 3 "MINUTE" "ip" 2 20] [0 1 "MINUTE" "user" 0 20]]]`},
		// The user denies, so the address takes nothing, and nothing is given back.
		[2]string{"RL.ENVOY edge 3 1 ip a 1 user u 1 ip a REFUND", `[1 [[0 3 "MINUTE" "ip" 2 20] [1 1 "MINUTE" "user" 0 20] [0 3 "MINUTE" "ip" 2 20]]]`},
		// A key with two limits keeps to the smaller one.
		[2]string{"RL.ENVOY edge 2 1 ip c 1 ip c LIMIT 1 minute", `[1 [[1 3 "MINUTE" "ip" 0 20] [1 1 "MINUTE" "" 0 20]]]`},
		[2]string{"RL.ENVOY edge 2 1 ip c LIMIT 1 minute 1 ip c", `[1 [[1 1 "MINUTE" "" 0 20] [1 3 "MINUTE" "ip" 0 20]]]`},
		[2]string{"RL.ENVOY edge 2 1 ip c 1 ip c LIMIT 2 minute", `[0 [[0 3 "MINUTE" "ip" 0 20] [0 2 "MINUTE" "" 0 20]]]`},
		// The same key twice is one cost.
		[2]string{"RL.ENVOY edge 2 1 ip a 1 ip a", `[0 [[0 3 "MINUTE" "ip" 0 20] [0 3 "MINUTE" "ip" 0 20]]]`},
		[2]string{"RL.ENVOY edge 1 1 ip a", `[1 [[1 3 "MINUTE" "ip" 0 20]]]`},
	)
}

// TestEnvoyFigures looks at what RL.RULES STATS and RL.DENIALS have of a tree.
func TestEnvoyFigures(t *testing.T) {
	const tree = `{version: 1, namespaces: {rules: [{name: all, limit: 1/m}], edge: {descriptors: [
		{key: ip, rate_limit: {unit: minute, requests_per_unit: 2, name: per-ip}},
		{key: path, value: /a, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}, descriptors: [{key: user, value: "x*", rate_limit: {unit: minute, requests_per_unit: %d}}]},
		{key: free, rate_limit: {unlimited: true}}]}}}`
	ts := withRules(t, fmt.Sprintf(tree, 1))
	c := ts.client()
	for _, command := range []string{
		"RL.ENVOY edge 1 1 ip a", "RL.ENVOY edge 1 1 ip a HITS 2", "RL.ENVOY edge 1 1 ip a HITS 0", "RL.ENVOY edge 1 1 ip a REFUND", "RL.ENVOY edge 1 1 ip a HITS 5",
		"RL.ENVOY edge 2 1 path /a 1 path /a", "RL.ENVOY edge 2 2 path /a user x1 1 free y", "RL.ENVOY edge 1 1 none z", "RL.ENVOY edge 1 1 none z LIMIT 1 MINUTE", "RL.ENVOY edge 1 1 none z LIMIT 1 MINUTE",
	} {
		if got := line(c.do(strings.Fields(command)...)); got[0] == '-' {
			t.Fatal(got)
		}
	}
	stats := func(words ...string) string {
		t.Helper()
		var all []string
		v := c.do(append([]string{"RL.RULES", "STATS"}, words...)...)
		if v.Err() != nil {
			return line(v)
		}
		for _, e := range v.Elems {
			f := fieldsOf(e)
			text := f["namespace"].Text + "/" + f["name"].Text + " " + f["mode"].Text
			for _, name := range []string{"allowed", "near_limit", "limited", "shadow_limited", "namespace_allowed", "namespace_limited", "namespace_checks"} {
				text += " " + line(f[name])
			}
			all = append(all, text)
		}
		return strings.Join(all, ", ")
	}
	const want = "edge/ip enforce 1 0 2 0 5 3 10, edge/path_/a shadow 1 1 0 1 5 3 10, edge/path_/a.user_x* enforce 1 1 0 0 5 3 10, edge/free enforce 1 0 0 0 5 3 10"
	for words, want := range map[string]string{"edge": want, "edge OVER 5m": want, "": "rules/all enforce 0 0 0 0 0 0 0, " + want, "rules": "rules/all enforce 0 0 0 0 0 0 0", "none": "-NORULE there is no namespace \"none\""} {
		if got := stats(strings.Fields(words)...); got != want && !(want[0] == '-' && strings.HasPrefix(got, "-NORULE")) {
			t.Errorf("STATS %s:\n got %s\nwant %s", words, got, want)
		}
	}
	if got := c.do("RL.RULES", "HISTORY", "edge", "ip"); len(got.Elems) == 0 {
		t.Errorf("no minutes: %s", line(got))
	}
	for _, want := range []string{":edge:ip:a limit FIXED 2/m COUNTDENIED 2 0 20000 by edge/ip", ":edge:ip:a cost FIXED 2/m COUNTDENIED 5 0 -1 by edge/ip", ":edge:none:z limit FIXED 1/m COUNTDENIED 1 0 20000"} {
		if got := denied(c.do("RL.DENIALS")); strings.Count(got, want) != 1 || strings.Count(got, ", ") != 2 {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	// What is counted goes on when the tree changes, and after a restart.
	if _, err := ts.rules.Load([]byte(fmt.Sprintf(tree, 7))); err != nil {
		t.Fatal(err)
	}
	if got := stats("edge"); got != want {
		t.Errorf("after a change: %s", got)
	}
	again := withRules(t, fmt.Sprintf(tree, 7))
	again.rules.Continue(ts.rules.Totals())
	if got := again.rules.Totals(); !maps.Equal(got, ts.rules.Totals()) || len(got) != 4 {
		t.Errorf("after a restart: %v", got)
	}
}
