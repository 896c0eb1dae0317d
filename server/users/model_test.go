package users

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/glob"
	"limitdb/server/spec"
)

// catalog is a few commands, with subcommands and categories.
type catalog []*spec.Command

func newCatalog() catalog {
	key := func(name string, f spec.Flags) *spec.Command {
		return &spec.Command{Name: name, Arity: -2, Flags: f, FirstKey: 1, LastKey: -1, Step: 1}
	}
	config := &spec.Command{Name: "CONFIG", Arity: -2, Group: "server"}
	sub := func(name string) *spec.Command {
		return &spec.Command{Name: name, Arity: -3, Flags: spec.Admin, Parent: config, Group: "server"}
	}
	config.Subs = []*spec.Command{sub("GET"), sub("SET")}
	all := catalog{
		key("GET", spec.Readonly|spec.Fast), key("SET", spec.Write|spec.Fast), key("RL.TAKE", spec.Write|spec.Ahead|spec.Decides), key("RL.PEEK", spec.Readonly|spec.Ahead|spec.Decides),
		config, config.Subs[0], config.Subs[1],
		{Name: "FLUSHALL", Arity: 1, Flags: spec.Write | spec.Dangerous | spec.AllKeys, Group: "server"},
		{Name: "PUBLISH", Arity: 3, Flags: spec.PubSub, Group: "pubsub", Channels: spec.OneChannel},
		{Name: "PSUBSCRIBE", Arity: -2, Flags: spec.PubSub, Group: "pubsub", Channels: spec.ChannelPatterns},
		{Name: "RL.CHECK", Arity: -3, Flags: spec.Write | spec.Decides, Group: "rules", Route: 1},
		{Name: "AUTH", Arity: -2, Flags: spec.NoAuth},
	}
	for i, c := range all {
		c.ID, c.Full = i, c.FullName()
		c.Settle()
	}
	return all
}

func (c catalog) Commands() []*spec.Command { return c }

func (c catalog) Find(name []byte) *spec.Command {
	for _, cmd := range c {
		if cmd.Parent == nil && strings.EqualFold(cmd.Name, string(name)) {
			return cmd
		}
	}
	return nil
}

// model does what rules say, slowly: it asks, for each question, all rules again.
type model []string

// runs reports whether the rules allow a command.
func (m model) runs(c *spec.Command) bool {
	may := c.Flags&spec.NoAuth != 0
	if may {
		return true
	}
	for _, rule := range m {
		rest := strings.ToLower(rule[min(1, len(rule)):])
		switch strings.ToLower(rule) {
		case "allcommands":
			may = true
		case "nocommands", "reset":
			may = false
		}
		if rule == "" || rule[0] != '+' && rule[0] != '-' {
			continue
		}
		names := []string{c.FullName(), "@all"}
		if c.Parent != nil {
			names = append(names, strings.ToLower(c.Parent.Name))
		}
		if slices.Contains(append(names, c.Categories()...), rest) {
			may = rule[0] == '+'
		}
	}
	return may
}

// uses reports whether the rules allow a use of a key. Each pattern that allows it has to allow all of it.
func (m model) uses(key string, how spec.Access) bool {
	found := map[string]spec.Access{}
	for _, rule := range m {
		switch lower := strings.ToLower(rule); {
		case lower == "resetkeys", lower == "reset":
			clear(found)
		case lower == "allkeys", lower == "~*":
			found = map[string]spec.Access{"*": spec.Reads | spec.Changes}
		case strings.HasPrefix(rule, "~"):
			found[rule[1:]] |= spec.Reads | spec.Changes
		case strings.HasPrefix(rule, "%R~"):
			found[rule[3:]] |= spec.Reads
		case strings.HasPrefix(rule, "%W~"):
			found[rule[3:]] |= spec.Changes
		}
	}
	whole := spec.Access(0)
	for text, can := range found {
		p, _ := glob.Compile(text)
		if p.Match([]byte(key)) && can&how == how {
			return true
		}
		if text == "*" {
			whole |= can
		}
	}
	return whole != 0 && whole&how == how
}

var someRules = []string{
	"+get", "-get", "+set", "+@read", "-@read", "+@write", "-@write", "+@limit", "-@all", "+@all", "+config", "-config", "+config|get", "-config|get", "+CONFIG|SET", "-@dangerous", "+@admin",
	"+flushall", "-rl.take", "allcommands", "nocommands", "~a*", "~*", "%R~b", "%W~b", "%R~*", "%W~*", "~[ab]c", `~\*`, "resetkeys", "allkeys", "on", "off", "reset", "+publish", "&ch*", "&x", "allchannels", "resetchannels", ">pw", "<pw", "nopass", "resetpass",
}

// Rules in any order give what the model says, also after they were written as a line and read again.
func TestRightsAreThoseOfTheModel(t *testing.T) {
	known := newCatalog()
	rapid.Check(t, func(t *rapid.T) {
		r, m := Reset("u", 1), model{}
		for range rapid.IntRange(0, 12).Draw(t, "rules") {
			rule := rapid.SampledFrom(someRules).Draw(t, "rule")
			next, err := r.With([]string{rule}, known)
			if err != nil {
				continue
			}
			r, m = next, append(m, rule)
		}
		again, err := Reset("u", 1).With(Words(r.Text())[1:], known)
		if err != nil {
			t.Fatalf("%q gives %q: %v", m, r.Text(), err)
		}
		if again.Text() != r.Text() {
			t.Fatalf("%q gives %q, which gives %q", m, r.Text(), again.Text())
		}
		for _, r := range []*Rights{r, again} {
			agrees(t, r, m, known)
		}
	})
}

func agrees(t interface{ Fatalf(string, ...any) }, r *Rights, m model, known catalog) {
	free, plain := true, true
	for _, c := range known {
		may := m.runs(c)
		if got := r.MayRun(c); got != may {
			t.Fatalf("%q: may run %s: %v", m, c.Full, got)
		}
		if c.Flags&spec.Ahead != 0 {
			free = free && may
		}
		if c.Flags&(spec.Write|spec.Readonly) != 0 && c.Flags&(spec.Admin|spec.Dangerous) == 0 {
			plain = plain && may
		}
	}
	for _, key := range []string{"", "a", "ab", "b", "bc", "x", "*", strings.Repeat("k", 300)} {
		for how := range spec.Reads | spec.Changes + 1 {
			may := m.uses(key, how)
			if got := r.MayUse([]byte(key), how); got != may {
				t.Fatalf("%q: may use %q (%d): %v", m, key, how, got)
			}
			if c := known[0]; how == c.Access([][]byte{nil, nil}, 1) {
				if got := r.Check(c, [][]byte{[]byte("GET"), []byte(key)}).Reason == Allowed; got != (may && m.runs(c)) {
					t.Fatalf("%q: GET %q: %v", m, key, got)
				}
			}
		}
		free = free && m.uses(key, spec.Reads|spec.Changes)
	}
	// Only the pattern for all keys is known to match all, so what the model calls free may be less here.
	if r.Free() && !free || r.Plain() != plain {
		t.Fatalf("%q: free %v, plain %v", m, r.Free(), r.Plain())
	}
}

// A key of a rule's caller is known by its namespace, and by no other pattern but that for all.
func TestCallersOfRules(t *testing.T) {
	known := newCatalog()
	for _, c := range []struct {
		rule, key string
		may       bool
	}{
		{"~rl:shop:*", "\x00rlb47D:shop:all:u1", true},
		{"~rl:shop:all:*", "\x00rlb47D:shop:all:u1", true},
		{"~rl:shop:*", "\x00rlb47D:shopping:all:u1", false},
		{"~rl:shop:*", "\x00rl", false},
		{"~rl:*", "\x00rlb47Dxshop", false},
		{"~rl:shop:*", "rl:shop:mine", true}, // a key that only looks like one
		{"~*", "\x00rl", true},
		{"~?rl*", "\x00rlb47D:shop:all:u1", false},
		{"%R~*", "\x00rlb47D:shop:all:u1", true},
	} {
		r, err := Reset("u", 1).With([]string{c.rule}, known)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.MayRead([]byte(c.key)); got != c.may {
			t.Errorf("%s: %q: %v", c.rule, c.key, got)
		}
	}
	check := known.Find([]byte("RL.CHECK"))
	r, _ := Reset("u", 1).With([]string{"+@all", "~rl:shop:*", "~rl:b:one:*", "%R~rl:ro:*", "~*:", "~*p?:", "~r[l]:c:*", "~rl:d:\\*", "~rl:e:[*"}, known)
	for ns, may := range map[string]bool{"shop": true, "shopping": false, "b": false, "ro": false, "": false, "c": true, "d": false, "e": false} {
		if got := r.Check(check, [][]byte{nil, []byte(ns), []byte("0")}).Reason == Allowed; got != may {
			t.Errorf("RL.CHECK %s: %v", ns, got)
		}
	}
}

// What is too much for one user is refused.
func TestRulesAreBounded(t *testing.T) {
	known := newCatalog()
	long, passwords, patterns := []string{"~" + strings.Repeat("x", glob.MaxPattern+1)}, []string{}, []string{}
	for i := range 300 {
		text := strings.Repeat("x", i+1)
		passwords, patterns = append(passwords, ">"+text), append(patterns, "~"+text)
	}
	for _, rules := range [][]string{long, passwords, patterns, {"&" + long[0][1:]}} {
		if _, err := Reset("u", 1).With(rules, known); err == nil || !strings.Contains(err.Error(), errMost) {
			t.Errorf("%.20q: %v", rules, err)
		}
	}
}

// A decision of a user with patterns allocates nothing.
func TestChecksAllocateNothing(t *testing.T) {
	known := newCatalog()
	r, _ := Reset("u", 1).With([]string{"+@all", "~a:*", "~b:?:*", "~rl:shop:*"}, known)
	take, args, caller := known.Find([]byte("RL.TAKE")), [][]byte{[]byte("RL.TAKE"), []byte("b:1:2")}, []byte("\x00rlb47D:shop:all:u1")
	if n := testing.AllocsPerRun(100, func() {
		if r.Check(take, args).Reason != Allowed || !r.MayUse(caller, spec.Reads) {
			t.Fatal("denied")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRules checks that no rules break what With returns, and that its line gives the same rights.
func FuzzRules(f *testing.F) {
	known := newCatalog()
	f.Add(strings.Join(someRules, " "))
	f.Add("+@all ~* &* on >x -config|get %RW~k #d74ff0ee8da3b9806b18c877dbf29bbde50b5bd8e4dad7a3a725000feb82e8f1 (~a) +get|x")
	f.Add("~a %R~* %W~*")
	f.Add("%W~* %R~a %R~*")
	f.Add("~a\u00a0b &\u0085")
	f.Fuzz(func(t *testing.T, text string) {
		r := Reset("u", 1)
		for _, rule := range strings.Split(text, " ") {
			next, err := r.With([]string{rule}, known)
			if err == nil {
				r = next
			} else if strings.ContainsAny(rule[:min(1, len(rule))], "><#!") && len(rule) > 8 && strings.Contains(err.Error(), rule[1:]) && !strings.Contains(errHash+errMost+errNoPassword+"(redacted)Error in ACL SETUSER modifier", rule[1:]) {
				t.Fatalf("%q is in %q", rule, err)
			}
		}
		again, err := Reset("u", 1).With(Words(r.Text())[1:], known)
		if err != nil || again.Text() != r.Text() || again.Free() != r.Free() || again.Plain() != r.Plain() {
			t.Fatalf("%q: %v", r.Text(), err)
		}
		for _, c := range known {
			if r.MayRun(c) != again.MayRun(c) {
				t.Fatalf("%q: %s", r.Text(), c.Full)
			}
		}
	})
}
