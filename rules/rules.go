// Package rules reads a file of rate-limit rules and finds, for a request that is described by
// fields, the rules that apply to it, the limit of each, and the key under which its caller is
// counted. It decides nothing: the caller takes from the limits, all or none.
//
//	set, err := rules.Parse(text, nil)
//	q := new(rules.Query)
//	q.Begin(set.Namespace([]byte("shop")))
//	q.Add([]byte("user"), []byte("u17"))
//	err = q.Match(1)
//	for _, c := range q.Charges { … take c.Cost from c.Limit at c.Key … }
//
// A [Set] never changes, so goroutines may share it. A Query belongs to one goroutine and is
// reused, so a match allocates nothing.
package rules

import (
	"crypto/sha256"
	"iter"
	"slices"
	"strings"

	"limitdb/limit"
)

// The bounds of a file, and of one check.
const (
	// MaxText is the most bytes that a file may have.
	MaxText = 4 << 20
	// MaxFields is the most fields of one check.
	MaxFields = 64
	// MaxValue is the most bytes of the value of a field in a check.
	MaxValue = 8 << 10
	// MaxCharges is the most limits that apply to one check.
	MaxCharges = 64
	// maxName is the most bytes of a name.
	maxName = 64
)

// Set is a parsed file of rules.
type Set struct {
	namespaces []*Namespace
	byName     map[string]*Namespace
	domains    []*Domain
	domainOf   map[string]*Domain
	notes      []string
	rules      []*Rule
	text       []byte
	sum        [sha256.Size]byte
}

// Namespace returns the namespace of that name, or nil.
func (s *Set) Namespace(name []byte) *Namespace { return s.byName[string(name)] }

// Namespaces returns the namespaces in the order of the file. The caller must not change them.
func (s *Set) Namespaces() []*Namespace { return s.namespaces }

// Domain returns the namespace of that name that has a tree of descriptors, or nil.
func (s *Set) Domain(name string) *Domain { return s.domainOf[name] }

// Domains returns the namespaces with trees of descriptors, in the order of the file. The caller must not change them.
func (s *Set) Domains() []*Domain { return s.domains }

// Notes returns what is no mistake in the file, but may not be what is meant.
func (s *Set) Notes() []string { return s.notes }

// Rules returns the rules of all namespaces; each is at its Index. The caller must not change them.
func (s *Set) Rules() []*Rule { return s.rules }

// Text returns the file that the set was parsed from. The caller must not change it.
func (s *Set) Text() []byte { return s.text }

// Sum returns a checksum of what the rules mean: files that differ only in comments and layout
// have the same one.
func (s *Set) Sum() [sha256.Size]byte { return s.sum }

// Namespace is a list of rules that are checked together.
type Namespace struct {
	name   string
	rules  []*Rule
	fields map[string]int32 // the numbers of the fields that the rules name
	index  index            // of the rules' conditions

	// The field by which the keys are divided, see shard.go.
	shard   int32 // -1: none
	shardBy string
	v4, v6  int // the network that its value is cut to in all keys; 0: to none

	// Index is the namespace's place among Set.Namespaces.
	Index int
}

func newNamespace(name string) *Namespace {
	return &Namespace{name: name, fields: map[string]int32{}, shard: -1}
}

// Name returns the namespace's name.
func (n *Namespace) Name() string { return n.name }

// Rules returns the rules in the order of the file. The caller must not change them.
func (n *Namespace) Rules() []*Rule { return n.rules }

// Rule returns the rule of that name, or nil.
func (n *Namespace) Rule(name string) *Rule {
	for _, r := range n.rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Knows reports whether the rules look at a field.
func (n *Namespace) Knows(field []byte) bool {
	_, ok := n.fields[string(field)]
	return ok
}

// Fields returns the names of the fields that the rules look at, sorted.
func (n *Namespace) Fields() []string {
	names := make([]string, 0, len(n.fields))
	for name := range n.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Mode says what a rule does.
type Mode uint8

// The modes of a rule.
const (
	// Enforce denies what is above the limit.
	Enforce Mode = iota
	// Shadow counts what it would deny, and denies nothing.
	Shadow
	// Off does nothing: the rule does not match.
	Off
)

// modeNames has the modes' names.
var modeNames = [...]string{Enforce: "enforce", Shadow: "shadow", Off: "off"}

// String returns the mode's name.
func (m Mode) String() string { return modeNames[m] }

// ParseMode finds a mode by its name, in any case.
func ParseMode(name string) (Mode, bool) {
	i := slices.IndexFunc(modeNames[:], func(n string) bool { return strings.EqualFold(n, name) })
	return Mode(max(i, 0)), i >= 0
}

// CostFields returns the fields that the rules of the namespace take their costs from, each once.
func (n *Namespace) CostFields() (all []string) {
	for _, r := range n.rules {
		if r.costName != "" && !slices.Contains(all, r.costName) {
			all = append(all, r.costName)
		}
	}
	return all
}

// Rule is one rule of a namespace.
type Rule struct {
	// Name is unique in the namespace called Namespace.
	Name, Namespace string
	// Index is the rule's position in Set.Rules.
	Index int
	Mode  Mode

	conditions []condition // all must hold
	except     []condition // if there are some, not all may hold
	group      int32       // the exclusive group of the rule; 0: none
	key        []int32     // the fields that identify the caller
	fields     []string    // their names
	shard      int         // which of them divides the keys; -1: none
	address    int         // which of them is an address that is cut to its network; -1: none
	v4, v6     int         // bits of the networks
	cost       int32       // the field with the cost; -1: none
	costName   string
	weights    []weight
	stem       string // what the keys of the callers begin with, see identity.go

	terms     terms // of callers without an override
	plans     plans
	from      *limitFrom // nil: requests bring no limit
	flight    *InFlight  // nil: any number may be in flight
	block     string     // the words of BLOCK that the file says beside the limit, or ""
	overrides []override
	exempt    index // of the overrides' conditions
	candidate *terms
	sum       [sha256.Size]byte
}

// terms is what a caller may do.
type terms struct {
	limit     limit.Limit
	family    byte // of the algorithm, as keys have it
	unlimited bool
}

func (t *terms) String() string {
	if t.unlimited {
		return "unlimited"
	}
	return t.limit.String()
}

// plans chooses a rule's terms by the value of a field.
type plans struct {
	field     int32 // -1: the rule has no plans
	fieldName string
	tier      string
	byName    map[string]*terms
	names     []string // in the order of the file
	standard  string   // the plan of callers that name none that there is
}

// override is the terms of some callers.
type override struct {
	conditions []condition
	terms      terms
}

// Limit describes the rule's limit in one line, as LIST shows it.
func (r *Rule) Limit() string {
	if r.plans.field < 0 {
		return r.terms.String()
	}
	return r.plans.tier + " of the plan in " + r.plans.fieldName
}

// Match returns the fields that must match, each followed by its pattern as it is written.
func (r *Rule) Match() (pairs []string) { return pairsOf(r.conditions) }

// Except returns the fields of requests to which the rule does not apply, each followed by its pattern as it is written.
func (r *Rule) Except() (pairs []string) { return pairsOf(r.except) }

func pairsOf(all []condition) (pairs []string) {
	for i := range all {
		pairs = append(pairs, all[i].name, all[i].text)
	}
	return pairs
}

// Cost returns the name of the field with the cost, "" if there is none.
func (r *Rule) Cost() string { return r.costName }

// Key returns the names of the fields that identify a caller. The caller must not change them.
func (r *Rule) Key() []string { return r.fields }

// Candidate returns the limit that is tried beside the rule's, or "" if there is none.
func (r *Rule) Candidate() string {
	if r.candidate == nil {
		return ""
	}
	return r.candidate.String()
}

// Plans yields the plans of a rule that has some, with their limits.
func (r *Rule) Plans() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, name := range r.plans.names {
			if !yield(name, r.plans.byName[name].String()) {
				return
			}
		}
	}
}

// Overrides returns the number of overrides of the rule.
func (r *Rule) Overrides() int { return len(r.overrides) }

// Changes says how one set differs from another. Rules are named namespace/name, and a tree of descriptors as its namespace.
type Changes struct {
	Added, Removed, Changed []string
	// Restarted are those of Changed whose callers begin with a full limit, since they have other keys: the rule's key, its networks or shard_by
	// are others, or an algorithm of another family is in force.
	Restarted []string
	// Same counts the rules and trees that mean the same as before.
	Same int
}

// Add adds changes of other rules.
func (c *Changes) Add(other *Changes) {
	c.Added, c.Removed, c.Changed = append(c.Added, other.Added...), append(c.Removed, other.Removed...), append(c.Changed, other.Changed...)
	c.Restarted = append(c.Restarted, other.Restarted...)
	c.Same += other.Same
}

// Diff returns what changes when after replaces before, which may be nil.
func Diff(before, after *Set) Changes {
	var c Changes
	old := map[string]*Rule{}
	if before != nil {
		for _, r := range before.rules {
			old[r.ID()] = r
		}
	}
	for _, r := range after.rules {
		was := old[r.ID()]
		delete(old, r.ID())
		switch {
		case was == nil:
			c.Added = append(c.Added, r.Path())
		case was.sum != r.sum:
			if c.Changed = append(c.Changed, r.Path()); r.restarts(was) {
				c.Restarted = append(c.Restarted, r.Path())
			}
		default:
			c.Same++
		}
	}
	if before != nil {
		for _, r := range before.rules {
			if old[r.ID()] != nil {
				c.Removed = append(c.Removed, r.Path())
			}
		}
		c.domains(before.domains, after.domains)
	} else {
		c.domains(nil, after.domains)
	}
	return c
}

// restarts reports whether callers that had a limit under was begin with a full one under r.
func (r *Rule) restarts(was *Rule) bool {
	if r.stem != was.stem || r.ShardBy() != was.ShardBy() {
		return true
	}
	now := r.families()
	return slices.ContainsFunc(was.families(), func(family byte) bool { return len(now) > 0 && !slices.Contains(now, family) })
}

// families returns the letters of the families of a rule's limit, or of its plans.
func (r *Rule) families() (all []byte) {
	add := func(t *terms) {
		if !t.unlimited && t.family != 0 {
			all = append(all, t.family)
		}
	}
	if add(&r.terms); r.plans.field >= 0 {
		for _, name := range r.plans.names {
			add(r.plans.byName[name])
		}
	}
	return all
}

// domains adds what differs between trees of descriptors.
func (c *Changes) domains(before, after []*Domain) {
	old := map[string]*Domain{}
	for _, d := range before {
		old[d.name] = d
	}
	for _, d := range after {
		switch was := old[d.name]; {
		case was == nil:
			c.Added = append(c.Added, d.name)
		case was.sum != d.sum:
			c.Changed = append(c.Changed, d.name)
		default:
			c.Same++
		}
		delete(old, d.name)
	}
	for _, d := range before {
		if old[d.name] != nil {
			c.Removed = append(c.Removed, d.name)
		}
	}
}

// Path returns namespace/name, for people: both may have slashes.
func (r *Rule) Path() string { return r.Namespace + "/" + r.Name }

// ID returns a text that no other rule of a set has.
func (r *Rule) ID() string { return r.Namespace + ":" + r.Name }
