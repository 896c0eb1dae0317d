package rulebook

import (
	"errors"
	"strings"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/cluster"
	"limitdb/server/handler"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

// rulesRow is RL.RULES, which looks at the rules and changes them.
func (b *Book) rulesRow() row {
	row := handler.Rows[call]("rules", "O(n) for n rules", 0)
	ns, name, yaml := spec.Text("namespace"), spec.Text("name"), spec.Text("yaml")
	anyNS := spec.Optional(spec.Text("namespace"))
	fields := spec.Argument{Name: "data", Kind: "block", Multiple: true, Optional: true, Args: []spec.Argument{spec.Text("field"), spec.Text("value")}}
	modes := spec.Argument{Name: "mode", Kind: "oneof"}
	for m := rules.Enforce; m <= rules.Off; m++ {
		modes.Args = append(modes.Args, spec.Word(strings.ToUpper(m.String())))
	}
	const changes = spec.Admin | spec.Write | spec.Client | spec.Quorum
	all := handler.Container("RL.RULES", "rules", "A container for commands about rules.",
		row("LIST", -2, spec.Readonly, "Lists the namespaces, or the rules of one.", b.list, anyNS),
		row("GET", -3, spec.Readonly|spec.Client, "Returns a rule as it is written, or the rules of a namespace.", b.get, ns, spec.Optional(spec.Text("name"))),
		row("SET", 5, changes, "Adds a rule, or replaces it.", b.set, ns, name, yaml),
		row("DEL", 4, changes, "Deletes a rule.", b.delete, ns, name),
		row("LOAD", 3, changes, "Replaces all rules by those of a file's text.", b.replace, yaml),
		row("VALIDATE", 3, spec.Admin|spec.Client, "Checks the text of a file, and says what it would change.", b.validate, yaml),
		row("RELOAD", 2, changes, "Reads the rules file again.", func(c *call) { b.change(c, b.Reload) }),
		row("MODE", 5, changes, "Makes a rule enforce, only count (shadow), or do nothing (off).", b.mode, ns, name, modes),
		row("STATS", -2, spec.Readonly, "Returns the counters of the rules.", b.stats, anyNS),
		row("RESET", -4, spec.Write, "Forgets a caller of a rule; returns how many states the caller had.", b.reset, ns, name, fields),
		row("INFO", -4, spec.Readonly, "Returns the state of a caller of a rule, as RL.INFO does.", b.info, ns, name, fields),
	)
	all.Flags = spec.Long
	for i := range all.Rows {
		if sub := &all.Rows[i]; len(sub.Args) > 0 && sub.Args[0].Name == ns.Name && !sub.Args[0].Optional {
			sub.Route = 2
		}
	}
	return all
}

// changeError returns the reply for an error of a change of the rules.
func changeError(err error) string {
	var mistakes rules.Errors
	if errors.Is(err, rules.ErrNoRule) || errors.Is(err, errNoNamespace) {
		return "NORULE " + err.Error()
	}
	if errors.As(err, &mistakes) {
		return "ERR the rules stay as they are: " + mistakes.Error()
	}
	return "ERR " + resp.Excerpt([]byte(spec.Plain(err)))
}

// failChange replies with the error of a change of the rules.
func (b *Book) failChange(c *call, err error) {
	if errors.Is(err, cluster.ErrNotLeading) {
		b.Replication.Fail(c, err)
		return
	}
	c.Fail(changeError(err))
}

// maxWork is how many commands may work on the file of rules, or wait for that: each has up to rules.MaxText bytes.
const maxWork = 16

// work runs fn in the background, since parsing a large file takes longer than a turn, and then reply.
func (b *Book) work(c *call, fn func() error, reply func(err error)) {
	if b.working.Add(1) > maxWork {
		b.working.Add(-1)
		c.Fail("ERR too many commands work on the rules: try again later")
		return
	}
	c.Client.Background(func() error { defer b.working.Add(-1); return fn() }, reply)
}

// change changes the rules, and replies with what has changed.
func (b *Book) change(c *call, change func() (rules.Changes, error)) {
	var done rules.Changes
	b.work(c, func() (err error) { done, err = change(); return err }, func(err error) {
		if err != nil {
			b.failChange(c, err)
			return
		}
		changed(c, done)
	})
}

// maxShown is how many names of changed rules a reply has.
const maxShown = 100

// changed replies with what has changed.
func changed(c *call, done rules.Changes) {
	some := func(names []string) []string { return names[:min(len(names), maxShown)] }
	c.Fields("added", some(done.Added), "changed", some(done.Changed), "removed", some(done.Removed), "same", done.Same)
}

func (b *Book) replace(c *call) {
	text := []byte(string(c.Args[2]))
	b.change(c, func() (rules.Changes, error) {
		return b.edit(false, func(*rules.Set) ([]byte, error) { return text, nil })
	})
}

func (b *Book) validate(c *call) {
	text := []byte(string(c.Args[2]))
	b.change(c, func() (rules.Changes, error) {
		b.mu.Lock() // one large file at a time
		defer b.mu.Unlock()
		set, err := rules.Parse(text, &b.Parts.Zones)
		if err != nil {
			return rules.Changes{}, err
		}
		return rules.Diff(b.Set(), set), nil
	})
}

func (b *Book) set(c *call) {
	ns, name, text := string(c.Args[2]), string(c.Args[3]), []byte(string(c.Args[4]))
	b.change(c, func() (rules.Changes, error) {
		return b.edit(false, func(s *rules.Set) ([]byte, error) { return s.Set(ns, name, text) })
	})
}

func (b *Book) delete(c *call) {
	ns, name := string(c.Args[2]), string(c.Args[3])
	b.change(c, func() (rules.Changes, error) {
		return b.edit(false, func(s *rules.Set) ([]byte, error) { return s.Delete(ns, name) })
	})
}

func (b *Book) mode(c *call) {
	ns, name := string(c.Args[2]), string(c.Args[3])
	mode, ok := rules.ParseMode(string(c.Args[4]))
	if !ok {
		c.Fail("ERR mode must be enforce, shadow or off: " + resp.Quote(c.Args[4]))
		return
	}
	b.work(c, func() error { return b.SetMode(ns, name, mode) }, func(err error) {
		if err != nil {
			b.failChange(c, err)
			return
		}
		c.OK()
	})
}

// namespace returns the namespace that an optional argument names, or nil for all. If there is no such
// namespace, it replies with an error and returns false.
func namespace(c *call, f *inForce) (ns *rules.Namespace, ok bool) {
	if len(c.Args) < 3 {
		return nil, true
	}
	if len(c.Args) > 3 {
		c.Fail(c.Command.WrongArity())
		return nil, false
	}
	if ns = f.set.Namespace(c.Args[2]); ns == nil {
		c.Fail(errorText(errNoNamespace, c.Args[2]))
		return nil, false
	}
	return ns, true
}

// rulesStep is how many rules LIST and STATS reply with in a step.
const rulesStep = 64

func (b *Book) list(c *call) {
	f := b.force.Load()
	ns, ok := namespace(c, f)
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
		c.Fields("name", r.Name, "mode", r.Mode.String(), "limit", r.Limit(), "key", r.Key(), "candidate", r.Candidate())
	}, nil)
}

func (b *Book) get(c *call) {
	name := ""
	switch {
	case len(c.Args) > 4:
		c.Fail(c.Command.WrongArity())
		return
	case len(c.Args) == 4:
		name = string(c.Args[3])
	}
	ns := string(c.Args[2])
	var text []byte
	b.work(c, func() (err error) {
		b.mu.Lock() // one large file at a time
		defer b.mu.Unlock()
		text, err = b.Set().Excerpt(ns, name)
		return err
	}, func(err error) {
		if err != nil {
			c.Fail(changeError(err))
			return
		}
		c.Bulk(text)
	})
}

func (b *Book) stats(c *call) {
	f := b.force.Load()
	ns, ok := namespace(c, f)
	if !ok {
		return
	}
	list := f.set.Rules()
	if ns != nil {
		list = ns.Rules()
	}
	checks := f.checks()
	c.Array(len(list))
	c.EachStep(len(list), rulesStep, nil, func(i int) {
		r := list[i]
		sum := f.counters[r.Index].Totals()
		var all Checks
		if i := f.set.Namespace([]byte(r.Namespace)).Index; i < len(checks) {
			all = checks[i]
		}
		c.Fields("namespace", r.Namespace, "name", r.Name, "mode", r.Mode.String(),
			"allowed", sum.Allowed, "near_limit", sum.Near, "limited", sum.Limited, "shadow_limited", sum.ShadowLimited,
			"candidate_limited", sum.CandidateLimited, "since", sum.Since/1e9,
			"namespace_allowed", all.Allowed, "namespace_limited", all.Limited,
			"namespace_checks", all.Took.Count(), "namespace_p50_usec", all.Took.Quantile(0.5)/1000, "namespace_p99_usec", all.Took.Quantile(0.99)/1000)
	}, nil)
}

// callerKeys returns the keys under which a rule may count the caller that the command's arguments describe: a namespace, the
// rule's name and fields. If that fails, it replies with the error.
func (b *Book) callerKeys(c *call) (keys [][]byte, ok bool) {
	words := c.Args[4:]
	if len(words)%2 != 0 || len(words) > 2*rules.MaxFields {
		c.Fail("ERR give the fields of the rule's key, each with its value")
		return nil, false
	}
	k := b.check()
	defer k.Free()
	err := k.begin(b, c.Args[2])
	var r *rules.Rule
	if err == nil {
		if r = k.ns.Rule(string(c.Args[3])); r == nil {
			err = rules.ErrNoRule
		}
	}
	for ; err == nil && len(words) > 0; words = words[2:] {
		err = k.Add(words[0], words[1])
	}
	if err == nil {
		if keys, ok = k.KeysOf(r, nil); !ok {
			err = errors.New("the rule's callers are identified by " + strings.Join(r.Key(), ", ") + ": give all of these fields")
		}
	}
	if err != nil {
		c.Fail(changeError(err))
	}
	return keys, err == nil
}

func (b *Book) reset(c *call) {
	keys, ok := b.callerKeys(c)
	if !ok {
		return
	}
	n := int64(0)
	for _, key := range keys {
		if c.Keyspace().Remove(key) {
			n++
		}
	}
	c.Int(n)
}

func (b *Book) info(c *call) {
	all, ok := b.callerKeys(c)
	if !ok {
		return
	}
	for _, key := range all {
		if caller, _ := rules.ParseKey(key); caller.Candidate {
			continue
		}
		if info, ok := c.Keyspace().Info(key); ok {
			keys.Describe(c, &info)
			return
		}
	}
	c.Null()
}
