package rules

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"limitdb/limit"
)

// maxRules is the most rules of a file, and maxOverrides the most overrides of all its rules.
const (
	maxRules     = 50_000
	maxOverrides = 200_000
)

// Parse parses a file. zones caches time zones; if it is nil, each use of a zone loads it again. The error is
// an Errors.
func Parse(text []byte, zones *limit.Zones) (*Set, error) {
	root, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	d := &decoder{}
	c := compiler{decoder: d, zones: zones, set: &Set{byName: map[string]*Namespace{}, domainOf: map[string]*Domain{}, text: slices.Clone(text)}}
	err = d.guard(func() {
		if root == nil {
			d.fail(nil, "the file is empty: it needs at least version and namespaces")
			return
		}
		var doc fileDoc
		object(d, d.resolve(root), "the file", fileRows(), &doc)
		c.file(&doc)
	})
	if err != nil {
		return nil, err
	}
	c.set.notes = d.noted()
	return c.set, nil
}

// compiler makes a Set of what a file says.
type compiler struct {
	*decoder
	zones     *limit.Zones
	set       *Set
	doc       *fileDoc
	algorithm string
	overrides int
	group     int32
	nodes     int // of all trees
	ns        *Namespace
	plans     map[string]*planDoc
}

func (c *compiler) file(doc *fileDoc) {
	c.doc, c.algorithm, c.plans = doc, doc.defaults.algorithm, map[string]*planDoc{}
	if c.algorithm == "" {
		c.algorithm = limit.GCRA.String()
	}
	for i := range doc.plans {
		c.plans[doc.plans[i].name.text] = &doc.plans[i]
		c.checkPlan(&doc.plans[i])
	}
	if len(doc.plans) == 0 && len(c.errs) > 0 { // they may be under a name that is misspelt
		doc.badPlans = true
	}
	h := sha256.New()
	for i := range doc.namespaces {
		if n := &doc.namespaces[i]; n.tree != nil {
			domain := c.domain(n.name.text, n.tree)
			c.set.domains = append(c.set.domains, domain)
			c.set.domainOf[domain.name] = domain
			fmt.Fprintf(h, "%s descriptors\n", domain.name)
			h.Write(domain.sum[:])
			continue
		}
		c.namespace(&doc.namespaces[i])
		fmt.Fprintf(h, "%s %d\n", c.ns.name, len(c.ns.rules))
		for _, r := range c.ns.rules {
			h.Write(r.sum[:])
		}
	}
	c.set.sum = [sha256.Size]byte(h.Sum(nil))
}

// checkPlan checks the limits of a plan, as far as they mean something without a rule: a count without a period does only
// beside a calendar, and options only beside their algorithm.
func (c *compiler) checkPlan(p *planDoc) {
	before := len(c.errs)
	defer func() { p.bad = p.bad || len(c.errs) > before }()
	for _, t := range p.tiers {
		s := spell(t.value.text)
		switch {
		case !t.value.given():
		case strings.EqualFold(strings.TrimSpace(t.value.text), "unlimited"):
		case s.rate == nil:
			c.fail(t.value.at, "a plan's limit is a rate such as 60/m, a limit, or unlimited, not %s", quote(t.value.text))
		case s.algorithm != "" || len(s.options) == 0 && (len(s.rate) == 2 || strings.Contains(s.rate[0], "/")):
			if _, err := parseLimit(t.value.text, limit.FIXED.String(), beside{}, c.zones); err != nil {
				c.fail(t.value.at, "%v", err)
			}
		}
	}
}

func (c *compiler) namespace(doc *namespaceDoc) {
	ns := newNamespace(doc.name.text)
	c.ns = ns
	if doc.shardBy.given() {
		ns.shard, ns.shardBy = c.field(doc.shardBy.text), doc.shardBy.text
	}
	names := map[string]bool{}
	add := func(r *ruleDoc, group int32) *Rule {
		if names[r.name.text] && isName(r.name.text) {
			c.fail(r.name.at, "there are two rules with the name %s", quote(r.name.text))
		}
		names[r.name.text] = true
		rule := c.rule(r)
		rule.group = group
		return rule
	}
	for i := range doc.entries {
		e := &doc.entries[i]
		if !e.isGroup {
			add(&e.rule, 0)
			continue
		}
		c.group++
		if e.grouped != nil && e.grouped.Kind == yaml.SequenceNode && len(e.rules) == 0 {
			c.fail(e.grouped, "the group has no rules")
		}
		var before []*Rule
		for j := range e.rules {
			r := add(&e.rules[j], c.group)
			if e.rules[j].bad {
				continue // what it matches is not certain
			}
			c.unreachable(e.rules[j].name, r, before)
			before = append(before, r)
		}
	}
	c.noteShard(doc)
	ns.index = makeIndex(len(ns.rules), func(i int) ([]condition, []int32) { return ns.rules[i].conditions, ns.rules[i].key })
	ns.Index = len(c.set.namespaces)
	c.set.namespaces = append(c.set.namespaces, ns)
	c.set.byName[ns.name] = ns
	for i, r := range ns.rules {
		before := ""
		if i > 0 && r.group != 0 && r.group == ns.rules[i-1].group {
			before = ns.rules[i-1].Name
		}
		r.sum = r.checksum(before)
	}
}

// maxCompared is how many earlier rules, or overrides, one is compared with, so that a file takes no
// time that grows with the square of its size.
const maxCompared = 100

// unreachable fails if an earlier rule of the group always matches where r does.
func (c *compiler) unreachable(at spot, r *Rule, before []*Rule) {
	for _, b := range before[:min(len(before), maxCompared)] {
		if b.Mode != Off && b.shadows(r) {
			c.fail(at.at, "this rule can never apply: %s before it matches whatever it matches", quote(b.Name))
			return
		}
	}
}

func (c *compiler) rule(doc *ruleDoc) *Rule {
	r := &Rule{
		Name: doc.name.text, Namespace: c.ns.name, Index: len(c.set.rules),
		Mode: doc.mode, cost: -1, address: -1, plans: plans{field: -1},
	}
	if !doc.hasMode {
		r.Mode = c.doc.defaults.mode
	}
	if len(c.set.rules) == maxRules {
		c.fail(doc.at, "the file has more than %d rules", maxRules)
		panic(errGiveUp)
	}
	c.set.rules = append(c.set.rules, r)
	c.ns.rules = append(c.ns.rules, r)
	r.conditions = c.conditions(doc.match)
	for _, k := range doc.key {
		r.key = append(r.key, c.field(k.text))
		r.fields = append(r.fields, k.text)
	}
	if doc.cost.given() {
		r.cost, r.costName = c.field(doc.cost.text), doc.cost.text
	}
	c.weights(doc, r)
	c.needs(doc.at, r.key, r.conditions)
	c.except(doc, r)
	c.addresses(doc, r)
	c.shard(doc, r)
	r.stem = r.makeStem()
	c.limits(doc, r)
	c.exceptions(doc, r)
	return r
}

// field returns the number of a field of the namespace.
func (c *compiler) field(name string) int32 {
	n, ok := c.ns.fields[name]
	if !ok {
		n = int32(len(c.ns.fields))
		c.ns.fields[name] = n
	}
	return n
}

// needs fails if what needs a key's fields and those of conditions can never match, as they are more than a check can have.
func (c *compiler) needs(at *yaml.Node, key []int32, conditions []condition) {
	if len(key)+len(conditions) <= MaxFields {
		return
	}
	fields := map[int32]bool{}
	for _, f := range key {
		fields[f] = true
	}
	for i := range conditions {
		fields[conditions[i].field] = true
	}
	if len(fields) > MaxFields {
		c.fail(at, "this can never match: it needs %d fields, and a check has at most %d", len(fields), MaxFields)
	}
}

func (c *compiler) conditions(match []pairDoc) []condition {
	all := make([]condition, len(match))
	for i, m := range match {
		all[i] = condition{field: c.field(m.name.text), name: m.name.text, text: m.value.text}
		if m.nets == nil {
			all[i].pattern = parsePattern(m.value.text)
			continue
		}
		nets := largest(m.nets)
		all[i].nets = &nets
	}
	return all
}

// except compiles the except of a rule. It is a mistake if it can never match, or always does.
func (c *compiler) except(doc *ruleDoc, r *Rule) {
	r.except = c.conditions(doc.except.pairs)
	if len(r.except) == 0 || doc.bad {
		return
	}
	c.needs(doc.except.at, r.key, slices.Concat(r.conditions, r.except))
	if i, j := disjoint(r.except, r.conditions); i >= 0 {
		c.fail(doc.except.pairs[i].value.at, "this except can never count: the rule matches %s only where it is %s%s", r.except[i].name, quote(r.conditions[j].text), meant(&r.except[i], &r.conditions[j]))
	}
	if covers(r.except, r.conditions, nil, r.fields) {
		c.fail(doc.except.at, "this rule can never apply: its except matches whatever it matches")
	}
}

// meant returns the end of the message about two conditions that exclude each other, if one is a text that is meant as a network.
func meant(all ...*condition) string {
	for _, c := range all {
		if c.nets == nil && likeNetwork(c.text) {
			return fmt.Sprintf("; %s is compared as a text: for the network, write [%s]", c.text, c.text)
		}
	}
	return ""
}

// addresses decides which field of the key is an address that is cut to its network.
func (c *compiler) addresses(doc *ruleDoc, r *Rule) {
	if doc.v4 == 0 && doc.v6 == 0 && !doc.ipField.given() {
		return
	}
	r.v4, r.v6 = 32, 128
	if doc.v4 > 0 {
		r.v4 = doc.v4
	}
	if doc.v6 > 0 {
		r.v6 = doc.v6
	}
	name := "ip"
	switch {
	case doc.ipField.given():
		name = doc.ipField.text
	case len(r.fields) == 1:
		name = r.fields[0]
	}
	if r.address = slices.Index(r.fields, name); r.address < 0 && !doc.bad {
		c.fail(doc.at, "the key has no field %s: name the one with the address in ip_field", quote(name))
	}
}

// limits compiles the limit of a rule, or its plans.
func (c *compiler) limits(doc *ruleDoc, r *Rule) {
	c.inFlight(doc, r)
	c.block(doc, r)
	switch {
	case doc.unlimited.given():
		if doc.limit.given() || doc.limitFrom.given() || doc.inFlight.given() || doc.plan.at != nil || doc.burst.given() || doc.candidate.given() || len(doc.overrides) > 0 || len(doc.weights) > 0 {
			c.fail(doc.unlimited.at, "unlimited does not go with limit, limit_from, in_flight, plan, burst, weights, overrides or candidate")
		}
		r.terms.unlimited = true
		return
	case doc.plan.at != nil:
		c.plan(doc, r)
	case doc.limit.given():
		r.terms = c.terms(doc.limit, beside{doc.burst.text, r.block})
	case doc.inFlight.given() && !doc.limitFrom.given():
		r.terms.unlimited = true
	case !doc.bad && !doc.limitFrom.given():
		c.fail(doc.at, "rule %s needs a limit, a plan, or unlimited", quote(r.Name))
	}
	c.limitFrom(doc, r)
	if doc.burst.given() && r.flight != nil && r.terms.unlimited {
		c.fail(doc.burst.at, "burst is for a limit, which the rule does not have")
	}
	if doc.candidate.given() && r.flight != nil && r.terms.unlimited {
		c.fail(doc.candidate.at, "candidate is tried beside a limit: the rule has only in_flight")
	}
	if doc.candidate.given() {
		t := c.terms(doc.candidate, beside{block: r.block})
		r.candidate = &t
	}
}

// terms parses a limit that has a rate.
func (c *compiler) terms(text spot, beside beside) terms {
	t, err := c.parse(func(algorithm string) (terms, error) { return parseLimit(text.text, algorithm, beside, c.zones) })
	if err != nil {
		c.fail(text.at, "%v", err)
	}
	return t
}

// parse parses a limit that may have the default algorithm. If there is a mistake in the defaults, it may be any.
func (c *compiler) parse(with func(algorithm string) (terms, error)) (t terms, err error) {
	if t, err = with(c.algorithm); err == nil || !c.doc.badDefaults {
		return t, err
	}
	for _, a := range limit.Algorithms() {
		if t, err := with(a.String()); err == nil {
			return t, nil
		}
	}
	return t, err
}

func (c *compiler) plan(doc *ruleDoc, r *Rule) {
	p := &doc.plan
	if c.plans[p.standard.text] == nil && p.standard.given() && !c.doc.badPlans {
		c.fail(p.standard.at, "there is no plan %s", quote(p.standard.text))
	}
	r.plans = plans{
		field: c.field(p.field.text), fieldName: p.field.text, tier: p.limit.text,
		byName: map[string]*terms{}, standard: p.standard.text,
	}
	for i := range c.doc.plans {
		plan := &c.doc.plans[i]
		if plan.bad || !p.limit.given() {
			continue
		}
		at := slices.IndexFunc(plan.tiers, func(t pairDoc) bool { return t.name.text == p.limit.text })
		if at < 0 {
			c.fail(p.limit.at, "plan %s has no limit %s; write unlimited there if it is to have none", quote(plan.name.text), quote(p.limit.text))
			continue
		}
		t, err := c.parse(func(algorithm string) (terms, error) {
			return parsePlan(plan.tiers[at].value.text, doc.limit.text, algorithm, beside{doc.burst.text, r.block}, c.zones)
		})
		if err != nil {
			c.fail(p.limit.at, "with plan %s: %v", quote(plan.name.text), err)
		}
		r.plans.byName[plan.name.text] = &t
		r.plans.names = append(r.plans.names, plan.name.text)
	}
}

func (c *compiler) exceptions(doc *ruleDoc, r *Rule) {
	for i := range doc.overrides {
		o := &doc.overrides[i]
		if c.overrides++; c.overrides > maxOverrides {
			c.fail(o.at, "the file has more than %d overrides", maxOverrides)
			panic(errGiveUp)
		}
		over := override{conditions: c.conditions(o.match)}
		switch {
		case o.unlimited.given() && (o.limit.given() || o.burst.given()):
			c.fail(o.unlimited.at, "unlimited does not go with limit or burst")
		case o.unlimited.given():
			over.terms.unlimited = true
		case o.limit.given():
			over.terms = c.terms(o.limit, beside{burst: o.burst.text})
		case !o.bad:
			c.fail(o.at, "an override needs a limit or unlimited")
		}
		c.override(doc, i, over.conditions, r)
		r.overrides = append(r.overrides, over)
	}
	r.exempt = makeIndex(len(r.overrides), func(i int) ([]condition, []int32) { return r.overrides[i].conditions, nil })
}

// override fails if override i of doc can never count.
func (c *compiler) override(doc *ruleDoc, i int, conditions []condition, r *Rule) {
	o := &doc.overrides[i]
	if i, j := disjoint(conditions, r.conditions); i >= 0 {
		c.fail(o.match[i].value.at, "this override can never count: the rule matches %s only where it is %s%s", conditions[i].name, quote(r.conditions[j].text), meant(&conditions[i], &r.conditions[j]))
	}
	if len(r.except) > 0 && !o.bad && covers(r.except, slices.Concat(r.conditions, conditions), nil, r.fields) {
		c.fail(o.at, "this override can never count: the rule's except matches whatever it matches")
	}
	c.needs(o.at, r.key, slices.Concat(r.conditions, conditions))
	for i := range r.overrides[:min(len(r.overrides), maxCompared)] {
		if !o.bad && !doc.overrides[i].bad && covers(r.overrides[i].conditions, conditions, nil, nil) {
			c.fail(o.at, "this override can never count: one before it matches whatever it matches")
			return
		}
	}
}

// checksum returns a hash of what the rule means. before is the name of the rule before it in its group, or "".
func (r *Rule) checksum(before string) [sha256.Size]byte {
	h := sha256.New()
	write := func(args ...any) { fmt.Fprintf(h, "%q\n", fmt.Sprint(args...)) }
	conditions := func(cs []condition) {
		for i := range cs {
			if write(cs[i].name, "\x00", cs[i].text); cs[i].nets != nil {
				write(cs[i].nets.all)
			}
		}
		write("")
	}
	write(r.Path(), " ", r.Mode, " ", before, " ", r.costName, " ", r.v4, "/", r.v6)
	write(r.stem)
	conditions(r.conditions)
	write(r.terms.String(), "\x00", r.Candidate())
	write(r.plans.fieldName, "\x00", r.plans.tier, "\x00", r.plans.standard)
	for name, l := range r.Plans() {
		write(name, "\x00", l)
	}
	for i := range r.overrides {
		conditions(r.overrides[i].conditions)
		write(r.overrides[i].terms.String())
	}
	if r.shard >= 0 {
		write("shard_by", r.fields[r.shard])
	}
	if len(r.except) > 0 {
		write("except")
		conditions(r.except)
	}
	if r.from != nil {
		write("limit_from", r.from.name, "\x00", r.from.text)
	}
	if r.flight != nil {
		write("in_flight", r.flight.Max, " ", r.flight.Lease)
	}
	for i := range r.weights {
		write("weights", r.weights[i].times)
		conditions(r.weights[i].values)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
