package server

import (
	"slices"
	"strings"
	"testing"

	"limitdb/resp"
)

// A user is shown the keys that it may read, whichever way it asks for all.
func TestKeysOfOthersAreHidden(t *testing.T) {
	ts := newTestServer(t)
	if _, err := ts.rules.Load([]byte("{version: 1, namespaces: {shop: [{name: all, limit: GCRA 1/d}], bar: [{name: all, limit: GCRA 1/d}]}}")); err != nil {
		t.Fatal(err)
	}
	root := ts.client()
	for range 3 {
		for _, key := range []string{"app:1", "other", "appendix", strings.Repeat("app:", 100), strings.Repeat("other", 100)} {
			root.do("RL.TAKE", key, "GCRA", "1/d")
		}
		root.do("RL.CHECK", "shop", "0")
		root.do("RL.CHECK", "bar", "0")
	}
	for _, c := range []struct {
		rules []string
		want  []string
	}{
		{[]string{"~app:*"}, []string{"app:1", strings.Repeat("app:", 100)}},
		{[]string{"~a??:?"}, []string{"app:1"}},
		{[]string{"%R~app:1", "%W~other"}, []string{"app:1"}},
		{[]string{"~rl:shop:*"}, []string{"\x00rl....:shop:all"}},
		{[]string{"~rl:*"}, []string{"\x00rl....:bar:all", "\x00rl....:shop:all"}},
		{[]string{"%W~*"}, nil},
		{nil, nil},
	} {
		user := ts.as("user", append(c.rules, "+@all")...)
		see := func(how string, v []resp.Value) {
			t.Helper()
			var got []string
			for _, key := range v {
				text := key.Text
				if len(key.Elems) > 0 { // of RL.TOP
					text = key.Elems[0].Text
				}
				if strings.HasPrefix(text, "\x00rl") {
					text = text[:3] + "...." + text[7:]
				}
				if i := strings.Index(text, "..."); i > 3 && how == "RL.TOP" { // the key is cut
					text = strings.Repeat("app:", 100)
				}
				got = append(got, text)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%q: %s: %.60q, want %.60q", c.rules, how, got, c.want)
			}
		}
		see("KEYS", user.do("KEYS", "*").Elems)
		see("SCAN", user.do("SCAN", "0", "COUNT", "100000").Elems[1].Elems)
		see("RL.TOP", user.do("RL.TOP").Elems)
		user.do("MULTI")
		user.do("KEYS", "*")
		user.do("SCAN", "0")
		user.do("RANDOMKEY")
		all := user.do("EXEC").Elems
		see("KEYS in EXEC", all[0].Elems)
		see("SCAN in EXEC", all[1].Elems[1].Elems)
		for _, one := range []resp.Value{all[2], user.do("RANDOMKEY")} {
			if one.Null != (len(c.want) == 0) || !one.Null && strings.Contains(one.Text, "other") {
				t.Errorf("%q: RANDOMKEY: %s", c.rules, line(one))
			}
		}
		for _, words := range [][]string{{"FLUSHALL"}, {"MONITOR"}, {"SLOWLOG", "GET"}} {
			if got := line(user.do(words...)); !strings.HasPrefix(got, "-NOPERM") {
				t.Errorf("%q: %q: %s", c.rules, words, got)
			}
		}
	}
	if got := line(root.do("DBSIZE")); got != "7" {
		t.Error(got)
	}
}

// fieldsOf returns the pairs of a reply.
func fieldsOf(v resp.Value) map[string]resp.Value {
	f := map[string]resp.Value{}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		f[v.Elems[i].Text] = v.Elems[i+1]
	}
	return f
}

// A user is shown the denials of keys that it may read, and of namespaces whose callers it may.
func TestDenialsAndRulesOfOthersAreHidden(t *testing.T) {
	ts := newTestServer(t)
	if _, err := ts.rules.Load([]byte(`{version: 1, namespaces: {
  shop: [{name: all, limit: GCRA 1/d}],
  bar: [{name: all, limit: GCRA 1/d}],
  tree: {descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]}}}`)); err != nil {
		t.Fatal(err)
	}
	root := ts.client()
	for range 2 {
		for _, key := range []string{"app:1", "other", strings.Repeat("app:", 100), strings.Repeat("other", 100)} {
			root.do("RL.TAKE", key, "GCRA", "1/d")
		}
		root.do("RL.CHECK", "shop", "0")
		root.do("RL.CHECK", "bar", "0")
	}
	ts.history.Look(ts.clock.Now())
	long := strings.Repeat("app:", 20) + "ap"
	for _, c := range []struct {
		rules              []string
		denials, namespace string
	}{
		{[]string{"~*"}, "app:1 " + long + " other rl:bar:all rl:shop:all " + strings.Repeat("other", 16) + "ot", "bar shop tree"},
		{[]string{"~app:*"}, "app:1 " + long, ""},
		{[]string{"~a??:?"}, "app:1", ""},
		{[]string{"%R~app:1", "%W~other", "%W~rl:bar:*"}, "app:1", ""},
		{[]string{"~rl:shop:*"}, "rl:shop:all", "shop"},
		{[]string{"%R~rl:*"}, "rl:bar:all rl:shop:all", "bar shop tree"},
		{[]string{"~rl:tree:*"}, "", "tree"},
		{[]string{"~" + long + "...*"}, "", ""}, // as a cut key is shown, which is not how it goes on
		{nil, "", ""},
	} {
		user := ts.as("user", append(c.rules, "+@all")...)
		sorted := func(words []string) string {
			slices.Sort(words)
			return strings.Join(slices.Compact(words), " ")
		}
		var got []string
		for _, e := range user.do("RL.DENIALS", "COUNT", "100").Elems {
			key, _, _ := strings.Cut(fieldsOf(e)["key"].Text, "...")
			if strings.HasPrefix(key, "\x00rl") {
				key = "rl" + key[7:]
			}
			got = append(got, key)
		}
		want := strings.Fields(c.denials)
		if got, want := sorted(got), sorted(want); got != want {
			t.Errorf("%q: RL.DENIALS: %s, want %s", c.rules, got, want)
		}
		if got, want := len(user.do("RL.DENIALS", "other").Elems), len(c.rules) > 0 && c.rules[0] == "~*"; got > 0 != want {
			t.Errorf("%q: RL.DENIALS other: %d", c.rules, got)
		}
		var names, counted, timed []string
		for _, e := range user.do("RL.RULES", "LIST").Elems {
			names = append(names, e.Text)
		}
		for _, e := range user.do("RL.RULES", "STATS").Elems {
			counted = append(counted, fieldsOf(e)["namespace"].Text)
		}
		for _, e := range fieldsOf(user.do("RL.HISTORY"))["checks"].Elems {
			timed = append(timed, e.Elems[0].Text)
		}
		rules := strings.TrimSpace(strings.TrimSuffix(c.namespace, "tree")) // a tree has no times in RL.HISTORY
		if sorted(names) != c.namespace || sorted(counted) != c.namespace || sorted(timed) != rules {
			t.Errorf("%q: LIST %q, STATS %q, HISTORY %q", c.rules, names, counted, timed)
		}
		for _, words := range [][]string{{"RL.RULES", "LIST", "bar"}, {"RL.RULES", "STATS", "bar"}, {"RL.RULES", "STATS", "bar", "OVER", "5m"}} {
			got := line(user.do(words...))
			if may := strings.Contains(c.namespace, "bar"); may == strings.HasPrefix(got, "-NOPERM") {
				t.Errorf("%q: %q: %s", c.rules, words, got)
			}
		}
		if len(c.rules) == 0 || !strings.HasSuffix(c.rules[0], "~*") { // who may read all is answered from the background
			if got := line(user.do("RL.RULES", "VALIDATE", "{version: 1, namespaces: {}}")); !strings.HasPrefix(got, "-NOPERM") {
				t.Errorf("%q: VALIDATE: %s", c.rules, got)
			}
		}
	}
}

// The name of a domain is matched as its callers' keys have it, so that the pattern of one does not reach another.
func TestRightsOfDomains(t *testing.T) {
	ts := newTestServer(t)
	long := strings.Repeat("n", 200)
	for _, c := range []struct{ rule, domain, want string }{
		{"~rl:shop:*", "shop", "["},
		{"~rl:shop:*", "shop:admin", `-NOPERM this user has no permissions to access one of the keys used as arguments (user app lacks a pattern ~ that matches "rl:shop%3Aadmin:", the callers of the namespace)`},
		{"~rl:shop%3Aadmin:*", "shop:admin", "["},
		{"~rl:shop%3Aadmin:*", "shop%3Aadmin", "-NOPERM"},
		{"~rl:" + long + ":*", long, "-NOPERM"},
		{"~rl:" + long[:50] + "*", long, "["},
		{"%R~rl:shop:*", "shop", "-NOPERM"},
	} {
		app := ts.as("app", c.rule, "+rl.envoy")
		if got := line(app.do("RL.ENVOY", c.domain, "1", "1", "k", "v")); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s: %s", c.rule, c.domain, got)
		}
	}
}
