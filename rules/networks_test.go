package rules

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func TestNetworksInMatch(t *testing.T) {
	set := mustParse(t, `version: 1
namespaces:
  a:
    - {name: inside, match: {ip: [10.0.0.0/8, 2001:db8::/32, 192.0.2.7, "::1"]}, limit: 1/s}
    - {name: outside, key: [ip], except: {ip: [10.0.0.0/8, 10.1.0.0/16, "::/0"]}, limit: 2/s, overrides: [{match: {ip: [192.0.2.0/24]}, limit: 3/s}]}
    - {name: mapped, match: {ip: ["::ffff:10.1.0.0/112"], path: /a*}, limit: 4/s}
    - {name: text, match: {ip: 10.0.0.0/8}, limit: 5/s}
`)
	for _, c := range []struct{ fields, want string }{
		{"", ""},
		{"ip=10.1.2.3", "inside 1"},
		{"ip=::ffff:10.1.2.3", "inside 1"},
		{"ip=10.1.2.3 path=/ab", "inside 1, mapped 4"},
		{"ip=10.2.2.3 path=/ab", "inside 1"},
		{"ip=9.255.255.255", "outside 2"},
		{"ip=11.0.0.0", "outside 2"},
		{"ip=192.0.2.7", "inside 1, outside 3"},
		{"ip=192.0.2.8", "outside 3"},
		{"ip=::1", "inside 1"},
		{"ip=2001:DB8::1", "inside 1"},
		{"ip=2001:db8:0:0::1%eth0", "inside 1"},
		{"ip=2001:db9::1", ""},
		{"ip=10.1.2.3:80", "outside 2"},
		{"ip=[2001:db8::1]:80", "outside 2"},
		{"ip=10.1.2", "outside 2"},
		{"ip=010.1.2.3", "outside 2"},
		{"ip=", "outside 2"},
		{"ip=unknown", "outside 2"},
		{"ip=10.0.0.0/8", "outside 2, text 5"},
	} {
		q := match(t, set, "a", c.fields)
		var got []string
		for _, x := range q.Charges {
			got = append(got, fmt.Sprint(x.Rule.Name, " ", x.Limit.Max))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v", c.fields, got)
		}
	}
	same(t, set.Rules()[0].Match(), "ip", "[10.0.0.0/8, 2001:db8::/32, 192.0.2.7, ::1]")
	same(t, set.Notes(), "line 7: 10.0.0.0/8 is compared as a text: for the network, write [10.0.0.0/8]")
}

// The sum of a file says what its networks are, not how they are written.
func TestNetworksChangeTheSum(t *testing.T) {
	sum := func(list string) [32]byte {
		return mustParse(t, "version: 1\nnamespaces: {a: [{name: x, limit: 1/s, match: {ip: "+list+"}}]}").Sum()
	}
	many := func(last string) string { return "[" + strings.Repeat("10.0.0.0/8, ", 20) + last + "]" }
	if sum(many("10.0.0.0/8")) != sum(many("10.1.0.0/16")) {
		t.Error("a network in another one changes the sum")
	}
	if sum(many("11.0.0.0/8")) == sum(many("12.0.0.0/8")) || sum("[11.0.0.0/8]") == sum("'[11.0.0.0/8]'") {
		t.Error("other networks have the same sum")
	}
}

func TestBadNetworks(t *testing.T) {
	const help = " is no IP address or network: a list in a match has those, such as 192.0.2.7 or 10.0.0.0/8"
	for _, c := range []struct{ list, want string }{
		{"‸[]", `the list of networks of "ip" is empty`},
		{"[10.0.0.0/8, ‸x]", `"x"` + help},
		{"[‸10.*]", `"10.*"` + help},
		{"[‸'']", `""` + help},
		{"[‸10.0.0.1:80]", `"10.0.0.1:80"` + help},
		{"[‸'fe80::1%eth0']", `"fe80::1%eth0"` + help},
		{"[‸{a: b}]", "a network must be a text, not a mapping"},
		{"[‸~]", "a network must be a text, not nothing"},
		{"[‸10.0.0.0/33]", `"10.0.0.0/33": an IPv4 network has /0 to /32`},
		{"[‸10.0.0.0/08]", `"10.0.0.0/08": an IPv4 network has /0 to /32`},
		{"[‸10.0.0.0/]", `"10.0.0.0/": an IPv4 network has /0 to /32`},
		{"[‸10.0.0.0/-1]", `"10.0.0.0/-1": an IPv4 network has /0 to /32`},
		{"[‸10.0.0.0/255.0.0.0]", `"10.0.0.0/255.0.0.0": an IPv4 network has /0 to /32`},
		{"[‸'2001:db8::/129']", `"2001:db8::/129": an IPv6 network has /0 to /128`},
		{"[‸10.0.0.1/8]", `"10.0.0.1/8" has bits after the first 8: write 10.0.0.0/8 for the network, or 10.0.0.1 for the address`},
		{"[‸'2001:db8::1/32']", `"2001:db8::1/32" has bits after the first 32: write 2001:db8::/32 for the network, or 2001:db8::1 for the address`},
		{"[‸'::ffff:10.0.0.1/104']", `"::ffff:10.0.0.1/104" has bits after the first 104: write ::ffff:10.0.0.0/104 for the network, or ::ffff:10.0.0.1 for the address`},
	} {
		for _, form := range []string{"match: {ip: %s}", "except: {ip: %s}", "overrides: [{match: {ip: %s}, limit: 2/s}]"} {
			text, want := placed("version: 1\nnamespaces:\n  a:\n    - {name: x, limit: 1/s, key: [ip], "+fmt.Sprintf(form, c.list)+"}", c.want)
			if _, err := Parse([]byte(text), nil); err == nil || err.Error() != want {
				t.Errorf("%s:\n got %v\nwant %s", text, err, want)
			}
		}
	}
}

// What networks cannot match together is a mistake, as for other values.
func TestNetworksThatNeverCount(t *testing.T) {
	for _, c := range []struct{ rest, want string }{
		{"match: {ip: [10.0.0.0/8]}, except: ‸{ip: [8.0.0.0/6, 192.0.2.0/24]}", "this rule can never apply: its except matches whatever it matches"},
		{"match: {ip: [10.0.0.0/8]}, except: {ip: ‸[11.0.0.0/8]}", `this except can never count: the rule matches ip only where it is "[10.0.0.0/8]"`},
		{"match: {ip: 10.0.0.1}, except: ‸{ip: [10.0.0.0/8]}", "this rule can never apply: its except matches whatever it matches"},
		{"match: {ip: 11.0.0.1}, except: {ip: ‸[10.0.0.0/8]}", `this except can never count: the rule matches ip only where it is "11.0.0.1"`},
		{"match: {ip: [11.0.0.0/8]}, except: {ip: ‸unknown}", `this except can never count: the rule matches ip only where it is "[11.0.0.0/8]"`},
		{"match: {ip: [10.0.0.0/8]}, except: {ip: ‸10.1.0.0/16}", `this except can never count: the rule matches ip only where it is "[10.0.0.0/8]"; 10.1.0.0/16 is compared as a text: for the network, write [10.1.0.0/16]`},
		{"match: {ip: 10.0.0.0/8}, except: {ip: ‸[10.1.0.0/16]}", `this except can never count: the rule matches ip only where it is "10.0.0.0/8"; 10.0.0.0/8 is compared as a text: for the network, write [10.0.0.0/8]`},
		{"match: {ip: [10.0.0.0/8]}, overrides: [{match: {ip: ‸10.1.0.0/16}, limit: 2/s}]", `this override can never count: the rule matches ip only where it is "[10.0.0.0/8]"; 10.1.0.0/16 is compared as a text: for the network, write [10.1.0.0/16]`},
		{"match: {ip: [10.0.0.0/8, 11.0.0.0/8]}, except: {ip: [10.0.0.0/8, 12.0.0.0/8]}", ""},
		{"match: {ip: [10.0.0.0/8]}, except: {ip: [10.128.0.0/9]}", ""},
		{"match: {ip: [10.0.0.0/8]}, except: {ip: 10.*}", ""},
		{"match: {ip: [10.0.0.0/8]}, except: ‸{ip: '*'}", "this rule can never apply: its except matches whatever it matches"},
		{"match: {ip: '*'}, except: {ip: ['::/0']}", ""},
		{"overrides: [{match: {ip: [10.0.0.0/8]}, limit: 2/s}, ‸{match: {ip: [10.1.0.0/16, 10.2.0.0/16]}, limit: 3/s}]", "this override can never count: one before it matches whatever it matches"},
	} {
		text, want := placed("version: 1\nnamespaces:\n  a:\n    - {name: x, limit: 1/s, "+c.rest+"}", c.want)
		switch _, err := Parse([]byte(text), nil); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestVerdictOfNetworks(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("10.%d.0.0/16", i))
	}
	set := mustParse(t, "version: 1\nnamespaces: {a: [{name: x, match: {ip: [10.0.0.0/8]}, limit: 1/s}, {name: y, match: {ip: ["+strings.Join(many, ", ")+"]}, limit: 2/s}]}")
	const eight = "[10.0.0.0/16, 10.1.0.0/16, 10.2.0.0/16, 10.3.0.0/16, 10.4.0.0/16, 10.5.0.0/16, 10.6.0.0/16, 10.7.0.0/16, and 12 more]"
	for _, c := range []struct {
		ip, want string
		rule     int
	}{
		{"10.20.0.1", "x: 0:GCRA 1/s", 0},
		{"10.20.0.1", `y: ip is "10.20.0.1", not in ` + eight + ` [ip "10.20.0.1" "` + eight + `"]`, 1},
		{"11.0.0.1", `x: ip is "11.0.0.1", not in [10.0.0.0/8] [ip "11.0.0.1" "[10.0.0.0/8]"]`, 0},
		{"10.0.0.1:80", `x: ip is "10.0.0.1:80", which is no IP address [ip "10.0.0.1:80" "[10.0.0.0/8]"]`, 0},
	} {
		q := match(t, set, "a", "ip="+c.ip)
		if v := q.Explain().Of(set.Rules()[c.rule]); verdictText(q, &v) != c.want {
			t.Errorf("got  %s\nwant %s", verdictText(q, &v), c.want)
		}
	}
}

// crowd returns a file with 10 000 networks, in one rule, or in as many rules.
func crowd(each bool) string {
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces:\n  a:\n    - {name: r, key: [ip], limit: 1/s, match: {ip: [")
	for i := range 10_000 {
		if each && i > 0 {
			fmt.Fprintf(&b, "]}}\n    - {name: r%d, key: [ip], limit: 1/s, match: {ip: [", i)
		}
		fmt.Fprintf(&b, "10.%d.%d.0/%d, ", i/256, i%256, 24+i%3*4)
	}
	b.WriteString("2001:db8::/32]}}\n")
	return b.String()
}

// TestManyNetworks checks that a match among 10 000 networks finds what it should and allocates nothing, whatever the address.
func TestManyNetworks(t *testing.T) {
	for _, each := range []bool{false, true} {
		set := mustParse(t, crowd(each))
		q, ns := new(Query), set.Namespaces()[0]
		for _, c := range []struct {
			ip   string
			want int
		}{
			{"10.0.0.255", 1},
			{"10.0.1.15", 1},
			{"10.0.1.16", 0},
			{"10.39.15.0", 1},
			{"10.39.16.0", 0},
			{"10.255.0.1", 0},
			{"9.0.0.1", 0},
			{"2001:db8:1::7", 1},
			{"2001:db9::7", 0},
			{"unknown", 0},
			{"10.0.0.1:8080", 0},
			{strings.Repeat("1", MaxValue), 0},
		} {
			ask := func() {
				q.Begin(ns)
				if err := q.Add(asBytes("ip"), asBytes(c.ip)); err != nil {
					t.Fatal(err)
				}
				if err := q.Match(1); err != nil {
					t.Fatal(err)
				}
			}
			if ask(); len(q.Charges) != c.want {
				t.Errorf("%.40s: %d limits, not %d", c.ip, len(q.Charges), c.want)
			}
			if len(q.found) > 1 {
				t.Errorf("%.40s: %d rules were tried", c.ip, len(q.found))
			}
			if n := testing.AllocsPerRun(20, ask); n > 0 {
				t.Errorf("%.40s: %v allocations", c.ip, n)
			}
		}
	}
}

// TestNestedNetworks compares the search with trying each, for networks that lie in one another.
func TestNestedNetworks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		if r.IntN(3) == 0 {
			return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(r.IntN(16))})
		}
		return netip.AddrFrom4([4]byte{10, byte(r.IntN(3)), byte(r.IntN(3) * 127), byte(r.IntN(256))})
	}
	for range 300 {
		all := make([]netip.Prefix, r.IntN(30))
		for i := range all {
			a := address()
			all[i] = netip.PrefixFrom(a, r.IntN(a.BitLen()+1)).Masked()
		}
		n, top := makeNetworks(append([]netip.Prefix{}, all...)), largest(append([]netip.Prefix{}, all...))
		for range 50 {
			a, want := address(), map[netip.Prefix]bool{}
			for _, p := range all {
				if p.Contains(a) {
					want[p] = true
				}
			}
			got := 0
			for at := n.find(a); at >= 0; at = n.within[at] {
				if got++; !want[n.all[at]] {
					t.Fatalf("%v: found %v for %v", all, n.all[at], a)
				}
			}
			if got != len(want) || top.has(a) != (got > 0) {
				t.Fatalf("%v: %d of %d networks of %v", all, got, len(want), a)
			}
		}
		if !n.covers(&top) && len(top.all) == len(n.all) || !top.covers(&top) || len(top.all) > 0 && top.excludes(&top) {
			t.Fatalf("%v: %v", all, top.all)
		}
		for _, p := range all {
			one := makeNetworks([]netip.Prefix{p})
			if !top.covers(&one) || top.excludes(&one) || one.excludes(&top) {
				t.Fatalf("%v and %v", top.all, p)
			}
		}
	}
}

func BenchmarkManyNetworks(b *testing.B) {
	for _, each := range []bool{false, true} {
		b.Run(map[bool]string{false: "in one rule", true: "in as many rules"}[each], func(b *testing.B) {
			set := mustParse(b, crowd(each))
			q, ns := new(Query), set.Namespaces()[0]
			b.ReportAllocs()
			for b.Loop() {
				q.Begin(ns)
				_ = q.Add(asBytes("ip"), asBytes("10.39.15.0"))
				if err := q.Match(1); err != nil || len(q.Charges) != 1 {
					b.Fatal(err)
				}
			}
		})
	}
}
