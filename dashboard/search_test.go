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
