package rules

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slotText returns what the slot of a key is computed from, as Redis defines it: what is between the first { and the first } behind it, if there
// is something, and otherwise all.
func slotText(key []byte) string {
	if _, rest, ok := bytes.Cut(key, []byte("{")); ok {
		if tag, _, ok := bytes.Cut(rest, []byte("}")); ok && len(tag) > 0 {
			return string(tag)
		}
	}
	return string(key)
}

// TestShards checks that all that the rules know of a caller is in one slot, whatever bytes its value and the others have, that callers with other values have
// other tags, and that only the rules for all callers lie elsewhere.
func TestShards(t *testing.T) {
	s := mustParse(t, `{version: 1, namespaces: {a: {shard_by: tenant, rules: [
		{name: all, limit: 9/s},
		{name: first, key: [tenant, user], limit: 9/s, candidate: 5/s},
		{name: last, key: [user, ip, tenant], ipv6_prefix: 64, limit: fixed 9/s, in_flight: 3, lease: 1m},
		{name: `+strings.Repeat("n", 64)+`, key: [tenant], plan: {field: plan, limit: l, default: p}},
		{name: others, key: [user], limit: log 9/s}]}}, plans: {p: {l: 4/s}, q: {l: sliding 5/s}}}`)
	ns := s.Namespace([]byte("a"))
	if ns.ShardBy() != "tenant" || ns.Rule("all").ShardBy() != "" || ns.Rule("others").ShardBy() != "" || ns.Rule("last").ShardBy() != "tenant" {
		t.Error("the field is another")
	}
	if len(ns.Fields()) != 4 {
		t.Error(ns.Fields())
	}
	short := rapid.SliceOfN(rapid.SampledFrom([]byte("{}%:#7BDa")), 0, 6)
	value := rapid.OneOf(short, rapid.Custom(func(t *rapid.T) []byte {
		return bytes.Repeat(short.Draw(t, "part"), rapid.IntRange(1, 80).Draw(t, "times"))
	}), rapid.Custom(func(t *rapid.T) []byte {
		return bytes.Repeat([]byte("x"), rapid.IntRange(maxTag-1, maxTag+1).Draw(t, "long"))
	}))
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string]string{}
		q := &Query{Secret: []byte("s")}
		for i := range 4 {
			tenant := value.Draw(t, "tenant")
			q.Begin(ns)
			_, _ = q.Add([]byte("tenant"), tenant), q.Add([]byte("user"), value.Draw(t, "user"))
			_, _ = q.Add([]byte("ip"), value.Draw(t, "ip")), q.Add([]byte("plan"), []byte{"pq"[i%2]})
			if err := q.Match(1); err != nil || len(q.Charges) != 7 {
				t.Fatal(err, len(q.Charges))
			}
			tag := string(q.Tag())
			if was, ok := seen[tag]; ok && was != string(tenant) || strings.ContainsAny(tag[1:len(tag)-1], "{}") || len(tag) < 3 || len(tag) > maxTag+2 {
				t.Fatalf("%q and %q have the tag %q", was, tenant, tag)
			}
			seen[tag] = string(tenant)
			for _, c := range q.Charges {
				if inSlot := slotText(c.Key) == tag[1:len(tag)-1]; inSlot != (c.Rule.ShardBy() != "") || len(c.Key) > MaxKey {
					t.Fatalf("%s has the key %q for the tenant %q", c.Rule.Name, c.Key, tenant)
				}
				if c.Rule.ShardBy() == "" && bytes.ContainsAny(c.Key, "{}") || TagOf(c.Key) != "" != (c.Rule.ShardBy() != "") {
					t.Fatalf("%s has the key %q", c.Rule.Name, c.Key)
				}
				keys, _ := q.KeysOf(c.Rule, nil)
				for _, key := range keys {
					if c.Rule.ShardBy() != "" && slotText(key) != tag[1:len(tag)-1] {
						t.Fatalf("%s has the key %q as well", c.Rule.Name, key)
					}
				}
				if parsed, ok := ParseKey(c.Key); !ok || parsed.Rule != c.Rule.Name || len(parsed.Values) > len(c.Rule.Key()) {
					t.Fatalf("%q parses as %+v", c.Key, parsed)
				}
			}
		}
	})
}

// TestShardKeys shows what keys with a tag are like, and how they are read.
func TestShardKeys(t *testing.T) {
	s := mustParse(t, `{version: 1, namespaces: {a: {shard_by: x, rules: [{name: n, key: [y, x], limit: 1/s}]}}}`)
	long := strings.Repeat("v", 250)
	for _, c := range []struct{ x, y, key, parsed string }{
		{"u", "v", ":a:n:v:{u}", `["v" "u"] false`},
		{"u}", "{v}", ":a:n:%7Bv%7D:{u%7D}", `["{v}" "u}"] false`},
		{"", "", ":a:n::{%}", `["" ""] false`},
		{"%", "%", ":a:n:%25:{%25}", `["%" "%"] false`},
		{"u", long, ":a:n:{u}:#", ""},
		{long, "v", ":a:n:v:{#", ""},
	} {
		q := &Query{Secret: []byte("secret")}
		q.Begin(s.Namespace([]byte("a")))
		_, _ = q.Add([]byte("x"), []byte(c.x)), q.Add([]byte("y"), []byte(c.y))
		if err := q.Match(1); err != nil {
			t.Fatal(err)
		}
		key := keyOf(q)[nameAt-1:]
		parsed, _ := ParseKey([]byte(keyOf(q)))
		if c.parsed == "" {
			if !strings.HasPrefix(key, c.key) || !parsed.Hashed {
				t.Errorf("%.9q, %.9q: %q, which is read as %q", c.x, c.y, key, parsed.Values)
			}
		} else if got := fmt.Sprintf("%q %v", parsed.Values, parsed.Hashed); key != c.key || got != c.parsed {
			t.Errorf("%q, %q: %q, which is read as %s", c.x, c.y, key, got)
		}
	}
}

// TestShardByNetworks checks that the addresses of a network have one tag, if rules cut them to it.
func TestShardByNetworks(t *testing.T) {
	s := mustParse(t, `{version: 1, namespaces: {a: {shard_by: ip, rules: [{name: n, key: [ip], ipv6_prefix: 64, limit: 1/s}, {name: m, key: [u, ip], ipv6_prefix: 64, limit: 1/s}]}}}`)
	want := "{2001%3Adb8%3A%3A/64}"
	for _, ip := range []string{"2001:db8::1", "2001:DB8::2"} {
		q := match(t, s, "a", "u=1 ip="+ip)
		for _, c := range q.Charges {
			if "{"+slotText(c.Key)+"}" != want || string(q.Tag()) != want {
				t.Errorf("%s: %q, %q", ip, c.Key, q.Tag())
			}
		}
	}
}

// TestShardNotes checks that a shard_by without effect is said, and that edits keep the field.
func TestShardNotes(t *testing.T) {
	s := mustParse(t, "version: 1\nnamespaces:\n  a:\n    shard_by: u\n    rules:\n      - {name: x, key: [v], limit: 1/s}\n      - {exclusive: true, rules: [{name: y, limit: 1/s}]}\n")
	same(t, s.Notes(), "line 4: shard_by has no effect: no rule of the namespace has u in its key")
	for _, edit := range []func() ([]byte, error){
		func() ([]byte, error) { return s.Set("a", "z", []byte("{key: [u], limit: 2/s}")) },
		func() ([]byte, error) { return s.SetMode("a", "x", Off) },
		func() ([]byte, error) { return s.Delete("a", "y") },
		func() ([]byte, error) { return s.Set("a", "z", []byte("{key: [u, v], limit: 2/s}")) },
	} {
		text, err := edit()
		if err != nil {
			t.Fatal(err)
		}
		s = mustParse(t, string(text))
		if s.Namespace([]byte("a")).ShardBy() != "u" {
			t.Fatalf("%s", text)
		}
	}
	same(t, s.Notes())
	if r := s.Namespace([]byte("a")).Rules(); len(r) != 2 || r[1].ShardBy() != "u" {
		t.Errorf("%s", s.Text())
	}
	if text, err := s.Excerpt("a", ""); err != nil || !strings.HasPrefix(string(text), "shard_by: u\nrules:\n") {
		t.Errorf("%q, %v", text, err)
	}
	for _, name := range []string{"x", "z"} {
		text, err := s.Delete("a", name)
		if err != nil {
			t.Fatal(err)
		}
		s = mustParse(t, string(text))
	}
	if s.Namespace([]byte("a")) != nil {
		t.Errorf("%s", s.Text())
	}
}
