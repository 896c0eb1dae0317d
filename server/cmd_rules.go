package server

import (
	"errors"
	"strings"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

// rulesCommands are the commands that look at the rules and change them.
func rulesCommands() []command {
	row := rows("rules", "O(n) for n rules", 0)
	ns, name, yaml := spec.Text("namespace"), spec.Text("name"), spec.Text("yaml")
	anyNS := spec.Optional(spec.Text("namespace"))
	fields := spec.Argument{Name: "data", Kind: "block", Multiple: true, Optional: true, Args: []spec.Argument{spec.Text("field"), spec.Text("value")}}
	modes := spec.Argument{Name: "mode", Kind: "oneof"}
	for m := rules.Enforce; m <= rules.Off; m++ {
		modes.Args = append(modes.Args, spec.Argument{Name: m.String(), Kind: "pure-token", Token: strings.ToUpper(m.String())})
	}
	const changes = spec.Admin | spec.Write | spec.Client | spec.Quorum
	return []command{{
		Command: spec.Command{
			Name: "RL.RULES", Arity: -2, Flags: spec.Long, Group: "rules", Complexity: "Depends on subcommand.",
			Summary: "A container for commands about rules.",
		},
		subs: []command{
			row("LIST", -2, spec.Readonly, "Lists the namespaces, or the rules of one.", (*call).rulesList, anyNS),
			row("GET", -3, spec.Readonly|spec.Client, "Returns a rule as it is written, or the rules of a namespace.", (*call).rulesGet, ns, spec.Optional(spec.Text("name"))),
			row("SET", 5, changes, "Adds a rule, or replaces it.", (*call).rulesSet, ns, name, yaml),
			row("DEL", 4, changes, "Deletes a rule.", (*call).rulesDel, ns, name),
			row("LOAD", 3, changes, "Replaces all rules by those of a file's text.", (*call).rulesLoad, yaml),
			row("VALIDATE", 3, spec.Admin|spec.Client, "Checks the text of a file, and says what it would change.", (*call).rulesValidate, yaml),
			row("RELOAD", 2, changes, "Reads the rules file again.", (*call).rulesReload),
			row("MODE", 5, changes, "Makes a rule enforce, only count (shadow), or do nothing (off).", (*call).rulesMode, ns, name, modes),
			row("STATS", -2, spec.Readonly, "Returns the counters of the rules.", (*call).rulesStats, anyNS),
			row("RESET", -4, spec.Write, "Forgets a caller of a rule; returns how many states there were.", (*call).rulesReset, ns, name, fields),
			row("INFO", -4, spec.Readonly, "Returns the state of a caller of a rule, as RL.INFO does.", (*call).rulesInfo, ns, name, fields),
			row("HELP", 2, spec.Loading|spec.Stale, "Lists the subcommands.", (*call).help),
		},
	}}
}

// rulesError returns the reply for an error of a change of the rules.
func rulesError(err error) string {
	var mistakes rules.Errors
	if errors.Is(err, rules.ErrNoRule) || errors.Is(err, errNoNamespace) {
		return "NORULE " + err.Error()
	}
	if errors.As(err, &mistakes) {
		return "ERR the rules stay as they are: " + mistakes.Error()
	}
	return "ERR " + resp.Excerpt([]byte(err.Error()))
}

// failChange replies with the error of a change of the rules.
func (c *call) failChange(err error) {
	if errors.Is(err, ErrNotLeading) {
		c.srv.opts.Replication.Fail(c.inner(), err)
		return
	}
	c.Fail(rulesError(err))
}

// changeRules runs a change in the background, since parsing a large file takes longer than a turn, and
// replies with what has changed.
func (c *call) changeRules(change func() (rules.Changes, error)) {
	var done rules.Changes
	c.client.Background(func() (err error) { done, err = change(); return err }, func(err error) {
		if err != nil {
			c.failChange(err)
			return
		}
		c.changed(done)
	})
}

// maxShown is how many names of changed rules a reply has.
const maxShown = 100

// changed replies with what has changed.
func (c *call) changed(done rules.Changes) {
	c.Map(4)
	for _, part := range []struct {
		name  string
		rules []string
	}{{"added", done.Added}, {"changed", done.Changed}, {"removed", done.Removed}} {
		c.Text(part.name)
		c.Texts(part.rules[:min(len(part.rules), maxShown)])
	}
	c.Text("same")
	c.Int(int64(done.Same))
}

func (c *call) rulesLoad() {
	text := []byte(string(c.Args[2]))
	c.changeRules(func() (rules.Changes, error) {
		return c.srv.EditRules(false, func(*rules.Set) ([]byte, error) { return text, nil })
	})
}

func (c *call) rulesValidate() {
	text, srv := []byte(string(c.Args[2])), c.srv
	c.changeRules(func() (rules.Changes, error) {
		srv.rules.mu.Lock() // one large file at a time
		defer srv.rules.mu.Unlock()
		set, err := rules.Parse(text, &srv.parts.Zones)
		if err != nil {
			return rules.Changes{}, err
		}
		return rules.Diff(srv.Rules(), set), nil
	})
}

func (c *call) rulesSet() {
	ns, name, text := string(c.Args[2]), string(c.Args[3]), []byte(string(c.Args[4]))
	c.changeRules(func() (rules.Changes, error) {
		return c.srv.EditRules(false, func(s *rules.Set) ([]byte, error) { return s.Set(ns, name, text) })
	})
}

func (c *call) rulesDel() {
	ns, name := string(c.Args[2]), string(c.Args[3])
	c.changeRules(func() (rules.Changes, error) {
		return c.srv.EditRules(false, func(s *rules.Set) ([]byte, error) { return s.Delete(ns, name) })
	})
}

func (c *call) rulesReload() { c.changeRules(c.srv.ReloadRules) }

func (c *call) rulesMode() {
	ns, name := string(c.Args[2]), string(c.Args[3])
	mode, ok := rules.ParseMode(string(c.Args[4]))
	if !ok {
		c.Fail("ERR mode must be enforce, shadow or off: " + resp.Quote(c.Args[4]))
		return
	}
	c.client.Background(func() error { return c.srv.setRuleMode(ns, name, mode) }, func(err error) {
		if err != nil {
			c.failChange(err)
			return
		}
		c.OK()
	})
}

// namespace returns the namespace that an optional argument names, or nil for all. If there is no such
// namespace, it replies with an error and returns false.
func (c *call) namespace(f *rulesInForce) (ns *rules.Namespace, ok bool) {
	if len(c.Args) < 3 {
		return nil, true
	}
	if len(c.Args) > 3 {
		c.Fail(c.cmd.WrongArity())
		return nil, false
	}
	if ns = f.set.Namespace(c.Args[2]); ns == nil {
		c.Fail(checkError(errNoNamespace, c.Args[2]))
		return nil, false
	}
	return ns, true
}

// rulesStep is how many rules LIST and STATS reply with in a step.
const rulesStep = 64

func (c *call) rulesList() {
	f := c.srv.rules.force.Load()
	ns, ok := c.namespace(f)
	if !ok {
		return
	}
	if ns == nil {
		all := f.set.Namespaces()
		c.Array(len(all))
		for _, ns := range all {
			c.Text(ns.Name())
		}
		return
	}
	list := ns.Rules()
	c.Array(len(list))
	c.EachStep(len(list), rulesStep, nil, func(i int) {
		r := list[i]
		c.Map(5)
		c.Text("name")
		c.Text(r.Name)
		c.Text("mode")
		c.Text(r.Mode.String())
		c.Text("limit")
		c.Text(r.Limit())
		c.Text("key")
		c.Texts(r.Key())
		c.Text("candidate")
		c.Text(r.Candidate())
	}, nil)
}

func (c *call) rulesGet() {
	name := ""
	switch {
	case len(c.Args) > 4:
		c.Fail(c.cmd.WrongArity())
		return
	case len(c.Args) == 4:
		name = string(c.Args[3])
	}
	ns, srv := string(c.Args[2]), c.srv
	var text []byte
	c.client.Background(func() (err error) {
		srv.rules.mu.Lock() // one large file at a time
		defer srv.rules.mu.Unlock()
		text, err = srv.Rules().Excerpt(ns, name)
		return err
	}, func(err error) {
		if err != nil {
			c.Fail(rulesError(err))
			return
		}
		c.Bulk(text)
	})
}

func (c *call) rulesStats() {
	f := c.srv.rules.force.Load()
	ns, ok := c.namespace(f)
	if !ok {
		return
	}
	list := f.set.Rules()
	if ns != nil {
		list = ns.Rules()
	}
	c.Array(len(list))
	c.EachStep(len(list), rulesStep, nil, func(i int) {
		r := list[i]
		sum := f.counters[r.Index].Sum()
		c.Map(8)
		c.Text("namespace")
		c.Text(r.Namespace)
		c.Text("name")
		c.Text(r.Name)
		c.Text("mode")
		c.Text(r.Mode.String())
		for _, v := range [...]struct {
			name string
			n    uint64
		}{
			{"allowed", sum.Allowed},
			{"near_limit", sum.Near},
			{"limited", sum.Limited},
			{"shadow_limited", sum.ShadowLimited},
			{"candidate_limited", sum.CandidateLimited},
		} {
			c.Text(v.name)
			c.Int(int64(v.n))
		}
	}, nil)
}

// RuleCallerKeys returns the keys under which a rule may count the caller that fields describe. The errors are
// those of a check, rules.ErrNoRule, and one that names the fields of the rule's key.
func (srv *Server) RuleCallerKeys(namespace, name string, fields []Field) ([][]byte, error) {
	k := srv.checking()
	defer srv.doneChecking(k)
	if err := k.begin(srv, []byte(namespace)); err != nil {
		return nil, err
	}
	r := k.ns.Rule(name)
	if r == nil {
		return nil, rules.ErrNoRule
	}
	for _, f := range fields {
		if err := k.Add(f.Name, f.Value); err != nil {
			return nil, err
		}
	}
	keys, ok := k.KeysOf(r, nil)
	if !ok {
		return nil, errors.New("the rule's callers are identified by " + strings.Join(r.Key(), ", ") + ": give all of these fields")
	}
	return keys, nil
}

// ResetRuleCaller forgets a caller of a rule, and returns how many states there were. The errors are those of
// RuleCallerKeys.
func (srv *Server) ResetRuleCaller(now int64, namespace, name string, fields []Field) (int, error) {
	keys, err := srv.RuleCallerKeys(namespace, name, fields)
	n := 0
	for _, key := range keys {
		if srv.states().Reset(now, key) {
			n++
		}
	}
	return n, err
}

// caller returns the fields of a caller from the arguments after the rule's name. It replies with an error if
// they are not pairs.
func (c *call) caller() ([]Field, bool) {
	words := c.Args[4:]
	if len(words)%2 != 0 || len(words) > 2*rules.MaxFields {
		c.Fail("ERR give the fields of the rule's key, each with its value")
		return nil, false
	}
	var fields []Field
	for ; len(words) > 0; words = words[2:] {
		fields = append(fields, Field{words[0], words[1]})
	}
	return fields, true
}

func (c *call) rulesReset() {
	fields, ok := c.caller()
	if !ok {
		return
	}
	n, err := c.srv.ResetRuleCaller(c.Now, string(c.Args[2]), string(c.Args[3]), fields)
	if err != nil {
		c.Fail(rulesError(err))
		return
	}
	c.Int(int64(n))
}

func (c *call) rulesInfo() {
	fields, ok := c.caller()
	if !ok {
		return
	}
	callers, err := c.srv.RuleCallerKeys(string(c.Args[2]), string(c.Args[3]), fields)
	if err != nil {
		c.Fail(rulesError(err))
		return
	}
	for _, key := range callers {
		if caller, _ := rules.ParseKey(key); caller.Candidate {
			continue
		}
		if info, ok := c.srv.states().Info(c.Now, key); ok {
			keys.Describe(c.inner(), &info)
			return
		}
	}
	c.Null()
}
