package rules

import (
	"math"
	"net/netip"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"limitdb/internal/glob"
	"limitdb/limit"
)

// The structs have what a file says, with the places that errors name. compile.go gives it a meaning. It does so for
// a file with mistakes as well, to find them all at once. bad marks what may lack something because of a mistake in it:
// what it does not say is no mistake then.

type fileDoc struct {
	defaults   defaultsDoc
	plans      []planDoc
	namespaces []namespaceDoc

	badDefaults bool
	badPlans    bool // some of their names may be missing
}

type defaultsDoc struct {
	algorithm string
	mode      Mode
}

// planDoc is a plan: a limit for each tier.
type planDoc struct {
	name  spot
	tiers []pairDoc
	bad   bool
}

// namespaceDoc is a list of rules, or a tree of descriptors.
type namespaceDoc struct {
	name    spot
	shardBy spot
	entries []entryDoc
	tree    *domainDoc
}

// entryDoc is a rule, or a group of rules.
type entryDoc struct {
	at        *yaml.Node
	rule      ruleDoc
	exclusive bool
	rules     []ruleDoc
	isGroup   bool
	grouped   *yaml.Node // where "rules" is
}

type ruleDoc struct {
	at        *yaml.Node
	name      spot
	match     []pairDoc
	except    exceptDoc
	key       []spot
	limit     spot
	unlimited spot
	plan      planRefDoc
	burst     spot
	block     blockDoc
	limitFrom spot
	atMost    spot
	inFlight  spot
	lease     spot
	cost      spot
	weights   []weightDoc
	overrides []overrideDoc
	v4, v6    int // 0: not given
	ipField   spot
	mode      Mode
	hasMode   bool
	candidate spot
	bad       bool
}

type planRefDoc struct {
	at                     *yaml.Node
	field, limit, standard spot
}

type overrideDoc struct {
	at                      *yaml.Node
	match                   []pairDoc
	limit, burst, unlimited spot
	bad                     bool
}

// exceptDoc is the conditions under which a rule does not apply.
type exceptDoc struct {
	at    *yaml.Node
	pairs []pairDoc
}

// pairDoc is a name and a text, or networks.
type pairDoc struct {
	name, value spot
	nets        []netip.Prefix // nil: none
}

// JSON Schemas of fields that several objects have.
const (
	schemaText  = `{"type": ["string", "number", "boolean"]}`
	schemaName  = `{"type": "string", "pattern": "` + namePattern + `"}`
	schemaMatch = `{"type": "object", "minProperties": 1, "additionalProperties": {"oneOf": [` + schemaText + `, ` + schemaNets + `]}}`
	schemaNets  = `{"type": "array", "minItems": 1, "items": {"type": "string"}, "examples": [["10.0.0.0/8", "2001:db8::/32"]]}`
	schemaBurst = `{"type": "integer", "minimum": 0}`
	schemaLimit = `{"type": "string", "examples": ["100/m", "gcra 100/m burst 20", "sliding 500/s", "fixed 1000 calendar day tz Europe/Berlin"]}`
)

func fileRows() []row[fileDoc] {
	return []row[fileDoc]{
		{
			"version", true, `{"const": 1}`, "The version of the format: 1.",
			func(d *decoder, n *yaml.Node, _ *fileDoc) {
				if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Value != "1" {
					d.fail(n, "version must be 1, not %s", what(n))
				}
			},
		},
		{
			"defaults", false, `{"$ref": "#/$defs/defaults"}`, "The defaults of rules that do not say otherwise.",
			func(d *decoder, n *yaml.Node, to *fileDoc) {
				to.badDefaults = d.spoils(func() { object(d, n, "defaults", defaultsRows(), &to.defaults) })
			},
		},
		{
			"plans", false, `{"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}}`,
			"Plans by name; each has limits by name: a rate such as 60/m, a limit, or unlimited.",
			readPlans,
		},
		{
			"namespaces", true, `{"type": "object", "additionalProperties": {"oneOf": [{"type": "array", "items": {"oneOf": [{"$ref": "#/$defs/rule"}, {"$ref": "#/$defs/group"}]}}, {"$ref": "#/$defs/namespace"}, {"$ref": "#/$defs/tree"}]}}`,
			"For each namespace a list of rules, such a list with shard_by, or a tree of descriptors. A check names one namespace.",
			readNamespaces,
		},
	}
}

func defaultsRows() []row[defaultsDoc] {
	return []row[defaultsDoc]{
		{
			"algorithm", false, `{"type": "string", "examples": ["gcra", "sliding", "fixed"]}`, "The algorithm of limits that name none; gcra if not given.",
			func(d *decoder, n *yaml.Node, to *defaultsDoc) {
				s, ok := d.scalar(n, "algorithm")
				a, known := limit.Lookup([]byte(s))
				if ok && !known {
					d.fail(n, "unknown algorithm %s", quote(s))
				} else if known {
					to.algorithm = a.String()
				}
			},
		},
		{
			"mode", false, schemaMode(), "The mode of rules that name none; enforce if not given.",
			func(d *decoder, n *yaml.Node, to *defaultsDoc) { to.mode = d.mode(n) },
		},
	}
}

// namespaceRows are the fields of a namespace with rules that says more than these.
func namespaceRows() []row[namespaceDoc] {
	return []row[namespaceDoc]{
		{
			"shard_by", false, schemaName, "The field by whose value keys are divided among groups: all rules that have it in key keep a caller in one slot.",
			func(d *decoder, n *yaml.Node, to *namespaceDoc) { to.shardBy = spot{d.name(n, "shard_by"), n} },
		},
		{
			"rules", true, `{"type": "array", "items": {"oneOf": [{"$ref": "#/$defs/rule"}, {"$ref": "#/$defs/group"}]}}`, "The rules of the namespace.",
			func(d *decoder, n *yaml.Node, to *namespaceDoc) { to.entries = d.entries(n) },
		},
	}
}

func groupRows() []row[entryDoc] {
	return []row[entryDoc]{
		{
			"exclusive", true, `{"const": true}`, "Of the rules of this group, only the first that matches applies.",
			func(d *decoder, n *yaml.Node, to *entryDoc) {
				if to.exclusive = d.yes(n, "exclusive"); !to.exclusive {
					d.fail(n, "exclusive must be true: without it, write the rules into the namespace's list")
				}
			},
		},
		{
			"rules", true, `{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/rule"}}`, "The rules of the group.",
			func(d *decoder, n *yaml.Node, to *entryDoc) {
				to.grouped = n
				d.items(n, "rules", func(item *yaml.Node) { to.rules = append(to.rules, d.rule(item)) })
			},
		},
	}
}

func ruleRows() []row[ruleDoc] {
	return []row[ruleDoc]{
		{
			"name", true, schemaName, "The rule's name, unique in the namespace.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.name = spot{d.name(n, "name"), n} },
		},
		{
			"description", false, `{"type": "string"}`, "For people; it has no effect.",
			func(d *decoder, n *yaml.Node, _ *ruleDoc) { d.scalar(n, "description") },
		},
		{
			"match", false, schemaMatch, "The fields that a check must have, with their values; * stands for any bytes, and a list is of networks.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.match = d.match(n, "match") },
		},
		{
			"except", false, schemaMatch, "The rule does not apply to a check that has all of these fields, with their values.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.except = exceptDoc{n, d.match(n, "except")} },
		},
		{
			"key", false, `{"type": "array", "items": ` + schemaName + `, "uniqueItems": true}`, "The fields that identify a caller. Without it all callers share the limit.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { d.key(n, to) },
		},
		{
			"limit", false, schemaLimit, "The limit, as for RL.TAKE. With plan, it has no rate.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.limit = d.spot(n, "limit") },
		},
		{
			"unlimited", false, `{"const": true}`, "The rule limits nobody; in an exclusive group it keeps the rules after it away.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.unlimited = d.flag(n, "unlimited") },
		},
		{
			"plan", false, `{"$ref": "#/$defs/plan"}`, "Takes the rate from the caller's plan.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) {
				to.plan.at = n
				object(d, n, "plan", planRows(), &to.plan)
			},
		},
		{
			"burst", false, schemaBurst, "BURST of the limit, or of the plans' limits that have none.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.burst = d.burst(n) },
		},
		{
			"block", false, schemaBlock, "BLOCK of the limit, or of the plans' limits that have none: for how long a denial shuts the caller out.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.block = d.block(n) },
		},
		{
			"limit_from", false, schemaName, "The field with the limit that a request brings: a count or a rate, such as 100 or 100/m. Needs at_most.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.limitFrom = spot{d.name(n, "limit_from"), n} },
		},
		{
			"at_most", false, schemaLimit, "The largest limit that a request may bring, whose algorithm and options it has.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.atMost = d.spot(n, "at_most") },
		},
		{
			"in_flight", false, `{"type": "integer", "minimum": 1, "maximum": 8192}`, "How many requests of a caller may be in flight at a time. Needs lease.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) {
				to.inFlight = d.count(n, "in_flight", 1, limit.MaxHolders)
			},
		},
		{
			"lease", false, `{"type": "string", "examples": ["60s"]}`, "How long a request of in_flight counts if its lease is not given back.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.lease = d.spot(n, "lease") },
		},
		{
			"cost", false, schemaName, "The field with the cost. A check without it costs what COST says, or 1.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.cost = spot{d.name(n, "cost"), n} },
		},
		{
			"weights", false, schemaWeights, "What one unit of the cost counts, by the values of fields. The first value that matches applies; 1 without one.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.weights = d.weights(n) },
		},
		{
			"overrides", false, `{"type": "array", "items": {"$ref": "#/$defs/override"}}`, "Other limits for some callers; the first that matches applies.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) {
				d.items(n, "overrides", func(item *yaml.Node) {
					o := overrideDoc{at: item}
					o.bad = d.spoils(func() { object(d, item, "an override", overrideRows(), &o) })
					to.overrides = append(to.overrides, o)
				})
			},
		},
		{
			"ipv4_prefix", false, `{"type": "integer", "minimum": 1, "maximum": 32}`, "One limit for a whole IPv4 network of this many bits.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.v4 = int(d.number(n, "ipv4_prefix", 1, 32)) },
		},
		{
			"ipv6_prefix", false, `{"type": "integer", "minimum": 1, "maximum": 128}`, "One limit for a whole IPv6 network of this many bits.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.v6 = int(d.number(n, "ipv6_prefix", 1, 128)) },
		},
		{
			"ip_field", false, schemaName, "Which field of the key is the address: ip, or the only one, if not given.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.ipField = spot{d.name(n, "ip_field"), n} },
		},
		{
			"mode", false, schemaMode(), "enforce, shadow (only count what would be denied) or off.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.mode, to.hasMode = d.mode(n), true },
		},
		{
			"candidate", false, schemaLimit, "A limit that is tried beside the rule's, counted, and never enforced.",
			func(d *decoder, n *yaml.Node, to *ruleDoc) { to.candidate = d.spot(n, "candidate") },
		},
	}
}

func planRows() []row[planRefDoc] {
	return []row[planRefDoc]{
		{
			"field", true, schemaName, "The field with the name of the caller's plan.",
			func(d *decoder, n *yaml.Node, to *planRefDoc) { to.field = spot{d.name(n, "field"), n} },
		},
		{
			"limit", true, schemaName, "Which of the plan's limits.",
			func(d *decoder, n *yaml.Node, to *planRefDoc) { to.limit = d.spot(n, "limit") },
		},
		{
			"default", true, schemaText, "The plan of callers that name none, or an unknown one.",
			func(d *decoder, n *yaml.Node, to *planRefDoc) { to.standard = d.spot(n, "default") },
		},
	}
}

func overrideRows() []row[overrideDoc] {
	return []row[overrideDoc]{
		{
			"match", true, schemaMatch, "For which callers.",
			func(d *decoder, n *yaml.Node, to *overrideDoc) { to.match = d.match(n, "match") },
		},
		{
			"limit", false, schemaLimit, "Their limit.",
			func(d *decoder, n *yaml.Node, to *overrideDoc) { to.limit = d.spot(n, "limit") },
		},
		{
			"burst", false, schemaBurst, "BURST of their limit.",
			func(d *decoder, n *yaml.Node, to *overrideDoc) { to.burst = d.burst(n) },
		},
		{
			"unlimited", false, `{"const": true}`, "The rule does not limit them.",
			func(d *decoder, n *yaml.Node, to *overrideDoc) { to.unlimited = d.flag(n, "unlimited") },
		},
	}
}

func schemaMode() string { return `{"enum": ["` + strings.Join(modeNames[:], `", "`) + `"]}` }

func (d *decoder) mode(n *yaml.Node) Mode {
	s, ok := d.scalar(n, "mode")
	m, known := ParseMode(s)
	if ok && !known {
		d.fail(n, "mode must be %s, not %s", list(modeNames[:]), quote(s))
	}
	return m
}

// flag reads a field that is true if it is there.
func (d *decoder) flag(n *yaml.Node, kind string) spot {
	if !d.yes(n, kind) {
		d.fail(n, "%s can only be true: leave it out otherwise", kind)
		return spot{}
	}
	return spot{"true", n}
}

func (d *decoder) burst(n *yaml.Node) spot { return d.count(n, "burst", 0, math.MaxInt64) }

// count reads an integer from least to most as a text.
func (d *decoder) count(n *yaml.Node, kind string, least, most int64) (s spot) {
	if d.spoils(func() { s = spot{strconv.FormatInt(d.number(n, kind, least, most), 10), n} }) {
		return spot{}
	}
	return s
}

func (d *decoder) key(n *yaml.Node, to *ruleDoc) {
	seen := map[string]bool{}
	d.items(n, "key", func(item *yaml.Node) {
		s := spot{d.name(item, "a field of the key"), item}
		if seen[s.text] {
			d.fail(item, "%s is in the key twice", quote(s.text))
		}
		seen[s.text] = true
		to.key = append(to.key, s)
	})
}

// match reads the conditions of a rule or an override. kind is the name of their field.
func (d *decoder) match(n *yaml.Node, kind string) (all []pairDoc) {
	d.pairs(n, kind, func(key, value *yaml.Node) {
		name := spot{d.name(key, "the name of a field"), key}
		if value = d.resolve(value); value.Kind == yaml.SequenceNode {
			all = append(all, d.networks(value, name))
			return
		}
		p := pairDoc{name: name, value: d.pattern(value, "the value of "+quote(key.Value))}
		if likeNetwork(p.value.text) {
			d.note(value, "%s is compared as a text: for the network, write [%s]", p.value.text, p.value.text)
		}
		all = append(all, p)
	})
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.fail(n, "%s is empty", kind)
	}
	return all
}

// pattern reads a pattern.
func (d *decoder) pattern(n *yaml.Node, kind string) spot {
	s := d.spot(n, kind)
	if len(s.text) > glob.MaxPattern {
		d.fail(n, "the pattern has more than %d bytes", glob.MaxPattern)
	}
	return s
}

func (d *decoder) rule(n *yaml.Node) ruleDoc {
	r := ruleDoc{at: n}
	r.bad = d.spoils(func() { object(d, n, "a rule", ruleRows(), &r) })
	return r
}

func readPlans(d *decoder, n *yaml.Node, to *fileDoc) {
	within := 0 // the mistakes in plans whose names are known
	before := len(d.errs)
	d.pairs(n, "plans", func(key, value *yaml.Node) {
		p := planDoc{name: d.spot(key, "a plan's name")}
		from := len(d.errs)
		d.pairs(d.resolve(value), "a plan", func(tier, rate *yaml.Node) {
			p.tiers = append(p.tiers, pairDoc{name: spot{d.name(tier, "the name of a plan's limit"), tier}, value: d.spot(d.resolve(rate), "a plan's limit")})
		})
		within += len(d.errs) - from
		p.bad = len(d.errs) > from
		to.plans = append(to.plans, p)
	})
	to.badPlans = len(d.errs)-before > within
}

func readNamespaces(d *decoder, n *yaml.Node, to *fileDoc) {
	d.pairs(n, "namespaces", func(key, value *yaml.Node) {
		ns := namespaceDoc{name: spot{d.name(key, "a namespace's name"), key}}
		switch value = d.resolve(value); {
		case hasField(value, "shard_by", "rules"):
			object(d, value, "a namespace", namespaceRows(), &ns)
		case value.Kind == yaml.MappingNode:
			ns.tree = d.tree(value)
		default:
			ns.entries = d.entries(value)
		}
		to.namespaces = append(to.namespaces, ns)
	})
}

// entries reads the list of rules and groups of a namespace.
func (d *decoder) entries(n *yaml.Node) (all []entryDoc) {
	d.items(n, "a namespace", func(item *yaml.Node) {
		e := entryDoc{at: item, isGroup: hasField(item, "exclusive", "rules")}
		if e.isGroup {
			object(d, item, "a group", groupRows(), &e)
		} else {
			e.rule = d.rule(item)
		}
		all = append(all, e)
	})
	return all
}

// hasField reports whether a node is a mapping with one of two fields.
func hasField(n *yaml.Node, one, other string) bool {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if k := n.Content[i].Value; k == one || k == other {
			return true
		}
	}
	return false
}
