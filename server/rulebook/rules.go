package rulebook

import (
	"errors"
	"slices"
	"strings"

	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/cluster"
	"limitdb/server/handler"
	"limitdb/server/keys"
	"limitdb/server/spec"
	"limitdb/server/users"
)

// runs returns the work of a command that fn does with b's rules.
func (b *Book) runs(fn func(*Book, *call)) func(*call) {
	return func(c *call) { fn(b, c) }
}

// rulesRow is RL.RULES, which looks at the rules and changes them.
func rulesRow(b *Book) row {
	row := handler.Rows[call]("rules", "O(n) for n rules", 0)
	ns, name, yaml := spec.Text("namespace"), spec.Text("name"), spec.Text("yaml")
	anyNS := spec.Optional(spec.Text("namespace"))
	fields := fieldArgs()
	modes := spec.Argument{Name: "mode", Kind: "oneof"}
	for m := rules.Enforce; m <= rules.Off; m++ {
		modes.Args = append(modes.Args, spec.Word(strings.ToUpper(m.String())))
	}
	const works = spec.Client | spec.Works
	const changes = spec.Admin | spec.Write | works | spec.Quorum
	all := handler.Container("RL.RULES", "rules", "A container for commands about rules.",
		row("LIST", -2, spec.Readonly, "Lists the namespaces, or the rules of one.", b.runs(list), anyNS),
		row("GET", -3, spec.Readonly|works, "Returns a rule as it is written, or the rules of a namespace.", b.runs(get), ns, spec.Optional(spec.Text("name"))),
		row("SET", 5, changes, "Adds a rule, or replaces it.", b.runs(setRule), ns, name, yaml),
		row("DEL", 4, changes, "Deletes a rule.", b.runs(deleteRule), ns, name),
		row("LOAD", 3, changes|spec.AllKeys, "Replaces all rules by those of a file's text.", b.runs(replace), yaml),
		row("VALIDATE", -3, spec.Admin|spec.Lead|works|spec.AllKeys, "Checks the text of a file, or of one rule, and says what it would change.", b.runs(validate),
			spec.Argument{Name: "rule", Kind: "block", Optional: true, Args: []spec.Argument{ns, name}}, yaml),
		row("RELOAD", 2, changes|spec.AllKeys, "Reads the rules file again.", func(c *call) { change(b, c, b.Reload) }),
		row("MODE", 5, changes, "Makes a rule enforce, only count (shadow), or do nothing (off).", b.runs(setMode), ns, name, modes),
		row("STATS", -2, spec.Readonly, "Returns the counters of the rules.", b.runs(showStats), anyNS,
			spec.Argument{Name: "time", Kind: "string", Token: "OVER", Optional: true}),
		row("HISTORY", 4, spec.Readonly, "Returns what a rule has counted in each of the last 60 minutes.", b.runs(showHistory), ns, name).Takes("O(1)"),
		explainRow(b),
		row("RESET", -4, spec.Write|spec.AllGroups, "Forgets a caller of a rule; returns how many states the caller had.", b.runs(reset), ns, name, fields),
		row("INFO", -4, spec.Readonly|spec.AllGroups, "Returns the state of a caller of a rule, as RL.INFO does.", b.runs(showInfo), ns, name, fields),
		row("KEYS", -4, spec.Readonly, "Returns the keys under which a rule may count a caller.", b.runs(showKeys), ns, name, fields),
	)
	all.Flags = spec.Long
	for i := range all.Rows {
		switch sub := &all.Rows[i]; {
		case sub.Name == "LIST":
			sub.Namespace = 2
		case len(sub.Args) > 0 && sub.Args[0].Name == ns.Name && !sub.Args[0].Optional:
			sub.Route = 2
		}
	}
	return all
}

// changeError returns the reply for an error of a change of the rules.
func changeError(err error) string {
	var mistakes rules.Errors
	var field *rules.FieldError
	if errors.Is(err, rules.ErrNoRule) || errors.Is(err, errNoNamespace) || errors.Is(err, errTree) {
		return "NORULE " + err.Error()
	}
	if errors.As(err, &mistakes) {
		return "ERR the rules stay as they are: " + err.Error()
	}
	if errors.As(err, &field) {
		return errorText(err, nil) // the names in it are quoted
	}
	return "ERR " + resp.Excerpt([]byte(spec.Plain(err)))
}

// failChange replies with the error of a change of the rules.
func failChange(b *Book, c *call, err error) {
	if errors.Is(err, cluster.ErrNotLeading) {
		b.Replication.Fail(c, err)
		return
	}
	c.Fail(changeError(err))
}

// maxWork is how many commands may work on the file of rules, or wait for that: each has up to rules.MaxText bytes.
const maxWork = 16

// work runs fn in the background, since parsing a large file takes longer than a turn, and then reply.
func work(b *Book, c *call, fn func() error, reply func(err error)) {
	if b.working.Add(1) > maxWork {
		b.working.Add(-1)
		c.Fail("ERR too many commands work on the rules: try again later")
		return
	}
	c.Client.Background(func() error { defer b.working.Add(-1); return fn() }, reply)
}

// change changes the rules, and replies with what has changed.
func change(b *Book, c *call, by func() (rules.Changes, error)) {
	var done rules.Changes
	work(b, c, func() (err error) { done, err = by(); return err }, func(err error) {
		if err != nil {
			failChange(b, c, err)
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
	c.Fields("added", some(done.Added), "changed", some(done.Changed), "removed", some(done.Removed), "restarted", some(done.Restarted), "same", done.Same)
}

func replace(b *Book, c *call) {
	text := []byte(string(c.Args[2]))
	change(b, c, func() (rules.Changes, error) {
		return b.edit(false, func(*rules.Set) ([]byte, error) { return text, nil })
	})
}

func validate(b *Book, c *call) {
	words := make([]string, 0, 3)
	for _, word := range c.Args[2:] {
		words = append(words, string(word))
	}
	text := func(*rules.Set) ([]byte, error) { return []byte(words[0]), nil }
	switch len(words) {
	case 1:
	case 3:
		text = func(s *rules.Set) ([]byte, error) { return s.Set(words[0], words[1], []byte(words[2])) }
	default:
		c.Fail(c.Command.WrongArity())
		return
	}
	change(b, c, func() (rules.Changes, error) {
		b.mu.Lock() // one large file at a time
		defer b.mu.Unlock()
		old := b.Set()
		next, err := text(old)
		if err != nil {
			return rules.Changes{}, err
		}
		set, err := rules.Parse(next, &b.Parts.Zones)
		if err != nil {
			return rules.Changes{}, err
		}
		return rules.Diff(old, set), nil
	})
}

func setRule(b *Book, c *call) {
	ns, name, text := string(c.Args[2]), string(c.Args[3]), []byte(string(c.Args[4]))
	change(b, c, func() (rules.Changes, error) {
		return b.edit(false, func(s *rules.Set) ([]byte, error) { return s.Set(ns, name, text) })
	})
}

func deleteRule(b *Book, c *call) {
	ns, name := string(c.Args[2]), string(c.Args[3])
	change(b, c, func() (rules.Changes, error) {
		return b.edit(false, func(s *rules.Set) ([]byte, error) { return s.Delete(ns, name) })
	})
}

func setMode(b *Book, c *call) {
	ns, name := string(c.Args[2]), string(c.Args[3])
	mode, ok := rules.ParseMode(string(c.Args[4]))
	if !ok {
		c.Fail("ERR mode must be enforce, shadow or off: " + resp.Quote(c.Args[4]))
		return
	}
	work(b, c, func() error { return b.SetMode(ns, name, mode) }, func(err error) {
		if err != nil {
			failChange(b, c, err)
			return
		}
		c.OK()
	})
}

// namespace returns the namespace that words name, or nil for all if there are none. If there is no such namespace, or there are several words, it
// replies with an error and returns false.
func namespace(b *Book, c *call, f *inForce, words [][]byte) (ns *rules.Namespace, ok bool) {
	if len(words) == 0 {
		return nil, true
	}
	if len(words) > 1 {
		c.Fail(c.Command.WrongArity())
		return nil, false
	}
	if !mayShow(c, words[0]) {
		return nil, false
	}
	if ns = f.set.Namespace(words[0]); ns == nil {
		c.Fail(errorText(b.noNamespace(words[0]), words[0]))
		return nil, false
	}
	return ns, true
}

// mayShow reports whether the client may be shown a namespace. If not, it replies with the error.
func mayShow(c *call, name []byte) bool {
	if c.Rights == nil {
		return true
	}
	d := c.Rights.CheckNamespace(c.Command, name)
	if d.Reason != users.Allowed {
		c.Fail(d.Text(c.Rights.Name, false))
	}
	return d.Reason == users.Allowed
}

// rulesStep is how many rules LIST and STATS reply with in a step.
const rulesStep = 64

func list(b *Book, c *call) {
	f := b.force.Load()
	ns, ok := namespace(b, c, f, c.Args[2:])
	if !ok {
		return
	}
	if ns == nil {
		var names []string
		for _, ns := range f.set.Namespaces() {
			names = append(names, ns.Name())
		}
		for _, d := range b.Domains() {
			names = append(names, d.Name())
		}
		c.Texts(slices.DeleteFunc(names, c.HiddenNamespace))
		return
	}
	list := ns.Rules()
	c.Array(len(list))
	c.EachStep(len(list), rulesStep, nil, func(i int) {
		r := list[i]
		var plans []string
		for name, limit := range r.Plans() {
			plans = append(plans, name, limit)
		}
		from, atMost := r.LimitFrom()
		inFlight := ""
		if f := r.InFlight(); f != nil {
			inFlight = f.String()
		}
		c.Fields("name", r.Name, "mode", r.Mode.String(), "limit", r.Limit(), "key", r.Key(), "candidate", r.Candidate(),
			"match", r.Match(), "except", r.Except(), "plans", plans, "overrides", r.Overrides(), "cost", r.Cost(), "weights", r.Weights(),
			"limit_from", from, "at_most", atMost, "in_flight", inFlight, "shard_by", r.ShardBy())
	}, nil)
}

func get(b *Book, c *call) {
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
	work(b, c, func() (err error) {
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

func showStats(b *Book, c *call) {
	f := b.force.Load()
	words, over, text := parseOver(c.Args[2:])
	if text != "" {
		c.Fail(text)
		return
	}
	all, ok := b.shown(c, f, words)
	if !ok {
		return
	}
	c.Array(len(all))
	c.EachStep(len(all), rulesStep, nil, func(i int) {
		r := all[i]()
		sum := r.sum(c.Began, over)
		c.Fields("namespace", r.namespace, "name", r.name, "mode", r.mode,
			"allowed", sum.Allowed, "near_limit", sum.Near, "limited", sum.Limited, "shadow_limited", sum.ShadowLimited,
			"candidate_limited", sum.CandidateLimited, "blocks", sum.Blocks, "blocked", sum.Blocked, "since", sum.Since/1e9,
			"namespace_allowed", r.checks.Allowed, "namespace_limited", r.checks.Limited,
			"namespace_checks", r.checks.Took.Count(), "namespace_p50_usec", r.checks.Took.Quantile(0.5)/1000, "namespace_p99_usec", r.checks.Took.Quantile(0.99)/1000)
	}, nil)
}

// shown returns the rules of a namespace and the limits of a domain that the words name or, without words, of all that the client may be shown.
// If that fails, it replies with the error.
func (b *Book) shown(c *call, f *inForce, words [][]byte) (all []func() figured, ok bool) {
	trees, list := b.treeFigures(), []*rules.Rule(nil)
	if len(words) == 1 && b.Domain(string(words[0])) != nil {
		if !mayShow(c, words[0]) {
			return nil, false
		}
		trees = slices.DeleteFunc(trees, func(t *treeFigures) bool { return t.domain.Name() != string(words[0]) })
	} else {
		ns, ok := namespace(b, c, f, words)
		switch {
		case !ok:
			return nil, false
		case ns != nil:
			list, trees = ns.Rules(), nil
		default:
			list = shownRules(c, f.set)
			trees = slices.DeleteFunc(trees, func(t *treeFigures) bool { return c.HiddenNamespace(t.domain.Name()) })
		}
	}
	checks := f.checks()
	for _, r := range list {
		all = append(all, func() figured { return f.rule(r, checks) })
	}
	for _, t := range trees {
		checks := t.checks()
		for i := range t.counters {
			all = append(all, func() figured { return t.limit(i, checks) })
		}
	}
	return all, true
}

// rule returns a rule with what it has counted.
func (f *inForce) rule(r *rules.Rule, checks []Checks) figured {
	all := figured{namespace: r.Namespace, name: r.Name, mode: r.Mode.String(), counters: f.counters[r.Index]}
	if r.Index < len(f.windows) {
		all.window = f.windows[r.Index]
	}
	if i := f.set.Namespace([]byte(r.Namespace)).Index; i < len(checks) {
		all.checks = checks[i]
	}
	return all
}

// shownRules returns the rules of all namespaces that the client may be shown.
func shownRules(c *call, set *rules.Set) (list []*rules.Rule) {
	if c.CostToHide(1) == 0 {
		return set.Rules()
	}
	for _, ns := range set.Namespaces() {
		if !c.HiddenNamespace(ns.Name()) {
			list = append(list, ns.Rules()...)
		}
	}
	return list
}

// parseOver parses what may follow an optional namespace: OVER and a time. It returns the other words, and the minutes, 0 without OVER.
func parseOver(words [][]byte) (rest [][]byte, minutes int64, text string) {
	n := len(words) - 2
	if n < 0 || !resp.EqualFold(words[n], "OVER") {
		return words, 0, ""
	}
	over, err := limit.ParseTime(words[n+1])
	if err != nil || over < minute || over > stats.WindowHours*60*minute {
		return nil, 0, "ERR OVER must be a time from 1m to 24h: " + resp.Quote(words[n+1])
	}
	return words[:n], (over + minute - 1) / minute, ""
}

func showHistory(b *Book, c *call) {
	list, ok := b.shown(c, b.force.Load(), c.Args[2:3])
	if !ok {
		return
	}
	at := slices.IndexFunc(list, func(r func() figured) bool { return r().name == string(c.Args[3]) })
	if at < 0 {
		c.Fail(changeError(rules.ErrNoRule))
		return
	}
	var all []stats.RuleMinute
	if r := list[at](); r.window != nil {
		all = r.window.Minutes(c.Began, r.counters.Sum())
	}
	c.Array(len(all))
	for _, m := range all {
		c.Array(8)
		c.Int(m.Begin / 1e6)
		for _, n := range [...]uint64{m.Allowed, m.Near, m.Limited, m.ShadowLimited, m.CandidateLimited, m.Blocks, m.Blocked} {
			c.Int(int64(n))
		}
	}
}

// callerKeys returns the keys under which a rule may count the caller that the command's arguments describe: a namespace, the
// rule's name and fields. If that fails, it replies with the error.
func callerKeys(b *Book, c *call) (keys [][]byte, ok bool) {
	words := c.Args[4:]
	if len(words)%2 != 0 || len(words) > 2*rules.MaxFields {
		c.Fail("ERR give the fields of the rule's key, each with its value")
		return nil, false
	}
	if text := b.secret.missing(); text != "" {
		c.Fail(text)
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

func reset(b *Book, c *call) {
	keys, ok := callerKeys(b, c)
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

func showKeys(b *Book, c *call) {
	all, ok := callerKeys(b, c)
	if !ok {
		return
	}
	c.Array(len(all))
	for _, key := range all {
		c.Bulk(key)
	}
}

func showInfo(b *Book, c *call) {
	all, ok := callerKeys(b, c)
	if !ok {
		return
	}
	for _, key := range all {
		if caller, _ := rules.ParseKey(key); caller.Candidate {
			continue
		}
		if info, ok := c.Keyspace().Info(key); ok {
			now := c.Now
			c.Now = c.TimeOf(key)
			keys.Describe(c, c.Keyspace(), key, &info)
			c.Now = now
			return
		}
	}
	c.Null()
}
