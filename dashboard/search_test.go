package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/glob"
	"limitdb/rules"
)

// TestNames checks that the name by which the page shows a caller of a rule leads back to the caller, and that its pattern matches the key.
func TestNames(t *testing.T) {
	escapeValue := strings.NewReplacer("%", "%25", ":", "%3A", "#", "%23", "{", "%7B", "}", "%7D")
	rapid.Check(t, func(t *rapid.T) {
		namespace, rule := rapid.StringMatching(`[a-z][a-z/_.-]{0,5}`).Draw(t, "namespace"), rapid.StringMatching(`[a-z_.-]{1,5}`).Draw(t, "rule")
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return strings.ReplaceAll(string(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bytes")), " ", "_") // one with a blank is taken for two values
		}), 1, 3).Draw(t, "values")
		tagged := rapid.IntRange(0, len(values)).Draw(t, "tagged")
		key := rules.Prefix + "cAbc:" + namespace + ":" + rule
		for i, v := range values {
			if v = escapeValue.Replace(v); i+1 == tagged {
				v = "{" + cmp.Or(v, "%") + "}"
			}
			key += ":" + v
		}
		text := rules.KeyText(key)
		all := parseName(text)
		i := slices.IndexFunc(all, func(n name) bool { return n.namespace == namespace && n.rule == rule && slices.Equal(n.values, values) })
		if i < 0 && strings.Count(namespace, "/") < maxNames {
			t.Fatalf("%q becomes %q, and that %+v", key, text, all)
		}
		if i < 0 {
			return
		}
		all[i].tagged = tagged
		pattern, ok := glob.Compile(all[i].pattern())
		if !ok || !pattern.Match([]byte(key)) {
			t.Fatalf("%q does not match %q", key, all[i].pattern())
		}
	})
}

// FuzzSearch checks that no text breaks the parsing of names, and that an escaped text matches itself only.
func FuzzSearch(f *testing.F) {
	for _, text := range []string{"", "/", "a/b", `a/b "c d" e`, `a/b "`, "a/b  c", "*?[]^\\", "a/b/c/d/e/f/g x (candidate)", "\x00\xff/\"\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, n := range parseName(text) {
			if n.namespace == "" || !strings.HasPrefix(text, n.namespace+"/"+n.rule) {
				t.Errorf("%q becomes %+v", text, n)
			}
			n.pattern()
		}
		if pattern, ok := glob.Compile(escape(text)); ok && (!pattern.Match([]byte(text)) || pattern.Match([]byte(text+"x"))) {
			t.Errorf("%q does not match %q only", escape(text), text)
		}
		// What begins with a bracket may be a list of networks.
		if len(text) < 200 && !strings.HasPrefix(text, "[") && example(strings.NewReplacer(`\`, `\\`, "*", `\*`).Replace(text)) != text {
			t.Errorf("%q is no example of itself", text)
		}
	})
}

func TestSearch(t *testing.T) {
	const other = "\x00rlcAbc:shop:api:u2:/b"
	b := newBoard()
	info := "%1\r\n$9\r\nalgorithm\r\n$4\r\ngcra\r\n"
	b.replies["RL.INFO"] = "_\r\n"
	for _, key := range []string{"user:1", "a\xffb", ruleKey} {
		b.replies["RL.INFO "+key] = info
	}
	b.replies["RL.RULES LIST"] = bulk("shop")
	b.replies["RL.RULES LIST shop"] = rulesList
	b.replies["RL.RULES KEYS shop api user u 1 path /a:b"] = bulk("gone", ruleKey)
	b.replies[`RL.RULES KEYS shop api user u path 1 /a:b`] = bulk("gone")
	b.replies["RL.TOP"] = "*2\r\n*2\r\n$6\r\nuser:7\r\n:7\r\n*2\r\n$93\r\n" + strings.Repeat("u", 82) + "...01234567" + "\r\n:3\r\n"
	b.replies["SCAN"] = "*2\r\n$1\r\n0\r\n*0\r\n"
	b.replies[`SCAN 0 MATCH user:*`] = "*2\r\n$2\r\n17\r\n" + bulk("user:8")
	b.replies[`SCAN 17 MATCH user:*`] = "*2\r\n$1\r\n0\r\n" + bulk("user:9", "user:8")
	b.replies["SCAN 0 MATCH \x00rl????:shop:api:u2*"] = "*2\r\n$1\r\n0\r\n" + bulk(other)
	b.replies[`SCAN 0 MATCH \[x\]\**`] = "*2\r\n$1\r\n0\r\n" + bulk("[x]*y")
	c := b.serve(t)
	for text, want := range map[string]string{
		"user:":                       "key user:7 (denied often), key user:8 (), key user:9 ()",
		"user:1":                      "key user:1 (gcra)",
		`"a\xffb"`:                    `key "a\xffb" (gcra)`,
		`shop/api "u 1" /a:b`:         "key shop/api u 1 /a:b (gcra)",
		"shop/api u2":                 "key shop/api u2 /b ()",
		"shop/":                       "rule shop/api (GCRA 10/m)",
		"api":                         "rule shop/api (GCRA 10/m)",
		"[x]*":                        "key [x]*y ()",
		"nothing":                     "",
		strings.Repeat("u", 40):       "",
		strings.Repeat("/", maxQuery): "",
	} {
		found := post[struct {
			Hits  []hit
			Whole bool
		}](t, c, "search", map[string]string{"q": text})
		var got []string
		for _, h := range found.Hits {
			got = append(got, h.Kind+" "+h.Text+" ("+h.Note+")")
		}
		if strings.Join(got, ", ") != want || !found.Whole {
			t.Errorf("%.50q finds %q, whole: %v", text, got, found.Whole)
		}
	}
	for _, text := range []string{"", strings.Repeat("x", maxQuery+1)} {
		if status, _, _ := c.ask("POST", Path+"api/search", `{"q":"`+text+`"}`, ours()...); status != 400 {
			t.Errorf("%.10q: %d", text, status)
		}
	}
	// A table without an end ends with the time for a search.
	b.replies[`SCAN 0 MATCH user:*`] = "*2\r\n$1\r\n1\r\n*0\r\n"
	b.replies[`SCAN 1 MATCH user:*`] = "*2\r\n$1\r\n1\r\n*0\r\n"
	if found := post[struct{ Whole bool }](t, c, "search", map[string]string{"q": "user:"}); found.Whole {
		t.Error("it has come to an end")
	}
}
