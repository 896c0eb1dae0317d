package rules

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// keyOf returns the key of the caller under the first rule.
func keyOf(q *Query) string { return string(q.Charges[0].Key) }

// TestCallersNeverShareAKey draws callers that are likely to be confused.
func TestCallersNeverShareAKey(t *testing.T) {
	sets := []*Set{
		mustParse(t, `{version: 1, namespaces: {a: [{name: n, key: [x, y], limit: 1/s}]}}`),
		mustParse(t, `{version: 1, namespaces: {a: {shard_by: x, rules: [{name: n, key: [x, y], limit: 1/s}]}}}`),
		mustParse(t, `{version: 1, namespaces: {a: {shard_by: y, rules: [{name: n, key: [x, y], limit: 1/s}]}}}`),
	}
	value := rapid.SliceOfN(rapid.SampledFrom([]byte(":%#23A57BD{}\x00/")), 0, 5)
	long := rapid.Custom(func(t *rapid.T) []byte { return bytes.Repeat(value.Draw(t, "part"), 60) })
	either := rapid.OneOf(value, long)
	key := func(s *Set, x, y []byte) string {
		q := &Query{Secret: []byte("s")}
		q.Begin(s.Namespace([]byte("a")))
		_, _ = q.Add([]byte("x"), x), q.Add([]byte("y"), y)
		if err := q.Match(1); err != nil {
			t.Fatal(err)
		}
		return keyOf(q)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := [2][]byte{either.Draw(t, "x"), either.Draw(t, "y")}, [2][]byte{either.Draw(t, "x2"), either.Draw(t, "y2")}
		s := rapid.SampledFrom(sets).Draw(t, "rules")
		k, l := key(s, a[0], a[1]), key(s, b[0], b[1])
		if equal := bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]); (k == l) != equal {
			t.Fatalf("%q and %q have the keys %q and %q", a, b, k, l)
		}
		if len(k) > MaxKey || !IsKey([]byte(k)) {
			t.Fatalf("the key has %d bytes", len(k))
		}
		c, ok := ParseKey([]byte(k))
		if !ok || c.Namespace != "a" || c.Rule != "n" || !c.Hashed && !slices.Equal(c.Values, []string{string(a[0]), string(a[1])}) {
			t.Fatalf("%q parses as %+v", k, c)
		}
	})
}

// TestLongIdentities checks that the hash of a long identity depends on the secret and the rule.
func TestLongIdentities(t *testing.T) {
	s := mustParse(t, `{version: 1, namespaces: {a: [{name: n, key: [x], limit: 1/s}, {name: m, key: [x], limit: 1/s}]}}`)
	seen := map[string]bool{}
	for _, secret := range []string{"one", "two"} {
		q := &Query{Secret: []byte(secret)}
		for range 2 {
			q.Begin(s.Namespace([]byte("a")))
			_ = q.Add([]byte("x"), []byte(strings.Repeat("u", MaxValue)))
			_ = q.Match(1)
			for _, c := range q.Charges {
				seen[string(c.Key[strings.LastIndex(string(c.Key), ":"):])] = true
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d hashes", len(seen))
	}
}

// TestKeysOfOneCheck checks that the key of a rule does not depend on the rules before it, which have the same values. The
// values are such that some keys are too long and others are not.
func TestKeysOfOneCheck(t *testing.T) {
	s := mustParse(t, `{version: 1, namespaces: {a: [
		{name: first, key: [x], limit: 1/s},
		{name: `+strings.Repeat("n", 60)+`, key: [x], limit: 1/s, candidate: 2/s},
		{name: pair, key: [x, y], limit: 1/s},
		{name: twice, key: [y, x], limit: 1/s},
		{name: net, key: [ip, x], limit: 1/s, ipv4_prefix: 24},
		{name: last, key: [x], limit: 1/s}]}}`)
	q := &Query{Secret: []byte("s")}
	value := rapid.Custom(func(t *rapid.T) []byte {
		return bytes.Repeat([]byte(rapid.SampledFrom([]string{"", "u", ":", "a%"}).Draw(t, "part")), rapid.IntRange(1, 120).Draw(t, "times"))
	})
	rapid.Check(t, func(t *rapid.T) {
		x, y := value.Draw(t, "x"), value.Draw(t, "y")
		add := func(q *Query) {
			q.Begin(s.Namespace([]byte("a")))
			_, _, _ = q.Add([]byte("x"), x), q.Add([]byte("y"), y), q.Add([]byte("ip"), []byte("192.0.2.7"))
		}
		add(q)
		for range 2 { // the second time, the keys are written over those of the first
			if q.Charges = q.Charges[:0]; q.Match(1) != nil || len(q.Charges) != 7 {
				t.Fatalf("%d charges", len(q.Charges))
			}
			for i, c := range q.Charges {
				alone := &Query{Secret: q.Secret}
				add(alone)
				keys, _ := alone.KeysOf(c.Rule, nil)
				if !slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, c.Key) }) {
					t.Fatalf("charge %d has the key %q, which is not one of %q", i, c.Key, keys)
				}
			}
		}
	})
}

// TestNetworks says which addresses share a limit.
func TestNetworks(t *testing.T) {
	s := mustParse(t, `{version: 1, namespaces: {a: [{name: n, key: [user, ip], ipv4_prefix: 24, ipv6_prefix: 64, limit: 1/s}]}}`)
	for _, c := range []struct{ ip, want string }{
		{"192.0.2.77", "192.0.2.0/24"},
		{"::ffff:192.0.2.9", "192.0.2.0/24"},
		{"::ffff:c000:209", "192.0.2.0/24"},
		{"2001:DB8::1", "2001:db8::/64"},
		{"2001:db8:0:0:ffff::1", "2001:db8::/64"},
		{"fe80::1%eth0", "fe80::/64"},
		{"unknown", "unknown"},
		{"192.0.2.1:80", "192.0.2.1:80"},
		{"192.0.2.256", "192.0.2.256"},
		{"", ""},
		{strings.Repeat("1", 60), strings.Repeat("1", 60)},
	} {
		q := match(t, s, "a", "user=10.1.2.3 ip="+c.ip)
		got, _ := ParseKey(q.Charges[0].Key)
		if !slices.Equal(got.Values, []string{"10.1.2.3", c.want}) {
			t.Errorf("%s: %q", c.ip, got.Values)
		}
	}
	s = mustParse(t, `{version: 1, namespaces: {a: [{name: n, key: [ip, peer], ip_field: peer, ipv6_prefix: 64, limit: 1/s}, {name: m, key: [peer], ipv4_prefix: 8, limit: 1/s}]}}`)
	for peer, want := range map[string][]string{
		"192.0.2.1": {"2001:db8::7", "192.0.2.1", "192.0.0.0/8"}, "2001:db8::1": {"2001:db8::7", "2001:db8::/64", "2001:db8::1"},
	} {
		q := match(t, s, "a", "ip=2001:db8::7 peer="+peer)
		n, _ := ParseKey(q.Charges[0].Key)
		m, _ := ParseKey(q.Charges[1].Key)
		same(t, append(n.Values, m.Values...), want...)
	}
	s = mustParse(t, `{version: 1, namespaces: {a: [{name: n, key: [addr], ipv6_prefix: 128, limit: 1/s}, {name: m, key: [addr], limit: 1/s}]}}`)
	q := match(t, s, "a", "addr=::FFFF:192.0.2.1")
	if a, _ := ParseKey(q.Charges[0].Key); a.Values[0] != "192.0.2.1" {
		t.Error(a)
	}
	if a, _ := ParseKey(q.Charges[1].Key); a.Values[0] != "::FFFF:192.0.2.1" {
		t.Error("a rule without a prefix takes values as they are:", a)
	}
}

// TestKeysOfChangedRules says which changes of a rule keep its callers' keys.
func TestKeysOfChangedRules(t *testing.T) {
	key := func(rule string) string {
		return keyOf(match(t, mustParse(t, `{version: 1, plans: {p: {l: 4/s}}, namespaces: {a: [{name: n, `+rule+`}]}}`), "a", "u=1 v=1"))
	}
	base := key("key: [u], limit: 1/s")
	for _, same := range []string{
		"key: [u], limit: gcra 5/m burst 3", "key: [u], limit: token 1/s", "key: [u], match: {v: 1}, limit: 1/s", "key: [u], limit: 1/s, mode: shadow",
		"key: [u], plan: {field: v, limit: l, default: p}",
	} {
		if key(same) != base {
			t.Errorf("%s: %q, not %q", same, key(same), base)
		}
	}
	seen := map[string]string{base: "the base"}
	for _, other := range []string{"key: [v], limit: 1/s", "key: [u], limit: sliding 1/s", "key: [u], limit: 1/s, ipv4_prefix: 24", "key: [u], limit: 1/s, ipv4_prefix: 25", "limit: 1/s"} {
		if k := key(other); seen[k] != "" {
			t.Errorf("%s has the key of %s", other, seen[k])
		} else {
			seen[k] = other
		}
	}
	for _, k := range []string{"", "user:1", Prefix, "\x00rlabcd"} {
		if _, ok := ParseKey([]byte(k)); ok {
			t.Errorf("%q is a caller's", k)
		}
	}
}

func TestKeyText(t *testing.T) {
	for key, want := range map[string]string{
		"user:1":                          "user:1",
		"ключ":                            "ключ",
		"a\xff":                           `"a\xff"`,
		"\x1b[2J":                         `"\x1b[2J"`,
		Prefix:                            `"\x00rl"`,
		Prefix + "aAbc:shop:day:u%3A1:\n": `shop/day u:1 "\n"`,
		Prefix + "AAbc:shop:day":          "shop/day (candidate)",
	} {
		if got := KeyText(key); got != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
	}
}
