package rules

import (
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A tree of descriptors, as a file says it: a file of Envoy's rate limit service, or a namespace of a file of rules. As there, a field
// without a value is one that is not given, and one that belongs elsewhere has no effect.

// maxWord is the most bytes of a key, of a value and of a name in a tree.
const maxWord = 8 << 10

// domainDoc is a domain.
type domainDoc struct {
	at          *yaml.Node
	domain      spot
	allOrNone   bool
	descriptors []*descriptorDoc
}

// descriptorDoc is a descriptor.
type descriptorDoc struct {
	at         *yaml.Node
	key, value string // without a value, any
	rate       *rateDoc
	children   []*descriptorDoc

	shadow, quota, share    bool
	detailed, valueToMetric bool
}

// rateDoc is the limit of a descriptor.
type rateDoc struct {
	at        *yaml.Node
	unit      spot
	count     int64
	unlimited bool
	algorithm spot
	name      string
	replaces  []spot
}

// word returns the descriptor as a step of a lookup has it.
func (n *descriptorDoc) word() string {
	if n.value == "" {
		return n.key
	}
	return n.key + "_" + n.value
}

// treeReader reads trees.
type treeReader struct {
	*decoder
	depth int // of descriptors in descriptors, which an alias can make endless
}

// envoyFields are the fields of the file of Envoy's rate limit service.
var envoyFields = [...]string{
	"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode", "quota_mode", "name", "replaces",
	"detailed_metric", "value_to_metric", "share_threshold",
}

// lenient returns rows that take a field without a value as one that is not given, and note those that have no effect.
func lenient[T any](rows []row[T], kind string) []row[T] {
	rows = slices.Clone(rows)
	for i := range rows {
		read := rows[i].read
		rows[i].read = func(d *decoder, n *yaml.Node, to *T) {
			if n.Tag != "!!null" {
				read(d, n, to)
			}
		}
	}
	for _, name := range envoyFields {
		if !slices.ContainsFunc(rows, func(r row[T]) bool { return r.name == name }) {
			rows = append(rows, row[T]{name: name, read: func(d *decoder, n *yaml.Node, _ *T) { d.note(n, "%s has no effect in %s", name, kind) }})
		}
	}
	return rows
}

// domainRows are the fields of a namespace with a tree.
func (r *treeReader) domainRows() []row[domainDoc] {
	return []row[domainDoc]{
		{
			"descriptors", true, `{"type": ["array", "null"], "items": {"$ref": "#/$defs/descriptor"}}`, "The tree of descriptors.",
			func(_ *decoder, n *yaml.Node, to *domainDoc) { to.descriptors = r.descriptors(n) },
		},
		{
			"all_or_none", false, `{"type": "boolean"}`, "Takes from the limits of all descriptors of a request, or from none.",
			func(d *decoder, n *yaml.Node, to *domainDoc) { to.allOrNone = d.yesNo(n, "all_or_none") },
		},
	}
}

// domainFileRows are the fields of a file with one domain.
func (r *treeReader) domainFileRows() []row[domainDoc] {
	rows := r.domainRows()
	rows[0].required = false
	return append([]row[domainDoc]{{
		"domain", true, `{"type": "string", "minLength": 1}`, "The domain.",
		func(d *decoder, n *yaml.Node, to *domainDoc) { to.domain = d.spot(n, "domain") },
	}}, rows...)
}

func (r *treeReader) descriptorRows() []row[descriptorDoc] {
	const yes = `{"type": ["boolean", "null"]}`
	rows := []row[descriptorDoc]{
		{
			"key", true, schemaText, "The key of an entry.",
			func(d *decoder, n *yaml.Node, to *descriptorDoc) { to.key = d.word(n, "key") },
		},
		{
			"value", false, schemaText, "Its value; * at the end stands for any bytes. Without it, any value that no other descriptor of the list has.",
			func(d *decoder, n *yaml.Node, to *descriptorDoc) { to.value = d.word(n, "value") },
		},
		{
			"rate_limit", false, `{"oneOf": [{"$ref": "#/$defs/rate_limit"}, {"type": "null"}]}`, "The limit of descriptors that end here.",
			func(d *decoder, n *yaml.Node, to *descriptorDoc) {
				to.rate = &rateDoc{at: n}
				object(d, n, "rate_limit", lenient(rateRows(), "rate_limit"), to.rate)
			},
		},
		{
			"descriptors", false, `{"type": ["array", "null"], "items": {"$ref": "#/$defs/descriptor"}}`, "The next entries.",
			func(_ *decoder, n *yaml.Node, to *descriptorDoc) { to.children = r.descriptors(n) },
		},
	}
	flag := func(name, doc string, set func(to *descriptorDoc, yes bool)) {
		rows = append(rows, row[descriptorDoc]{name, false, yes, doc, func(d *decoder, n *yaml.Node, to *descriptorDoc) { set(to, d.yesNo(n, name)) }})
	}
	flag("shadow_mode", "The limit denies nothing.", func(to *descriptorDoc, yes bool) { to.shadow = yes })
	flag("quota_mode", "The limit denies nothing, and the answer has no time of its reset.", func(to *descriptorDoc, yes bool) { to.quota = yes })
	flag("share_threshold", "All values that fit the wildcard share one counter.", func(to *descriptorDoc, yes bool) { to.share = yes })
	flag("detailed_metric", "The name of the metrics has all values.", func(to *descriptorDoc, yes bool) { to.detailed = yes })
	flag("value_to_metric", "The name of the metrics has the value of this entry.", func(to *descriptorDoc, yes bool) { to.valueToMetric = yes })
	return rows
}

func rateRows() []row[rateDoc] {
	return []row[rateDoc]{
		{
			"unit", false, `{"type": ["string", "null"]}`, "second, minute, hour, day, week, month (30 days) or year (365 days), in any case.",
			func(d *decoder, n *yaml.Node, to *rateDoc) { to.unit = d.spot(n, "unit") },
		},
		{
			"requests_per_unit", false, `{"type": ["integer", "null"], "minimum": 0, "maximum": 4294967295}`, "How many requests in each unit; 0 if not given.",
			func(d *decoder, n *yaml.Node, to *rateDoc) {
				to.count = d.number(n, "requests_per_unit", 0, math.MaxUint32)
			},
		},
		{
			"unlimited", false, `{"type": ["boolean", "null"]}`, "There is no limit.",
			func(d *decoder, n *yaml.Node, to *rateDoc) { to.unlimited = d.yesNo(n, "unlimited") },
		},
		{
			"name", false, schemaText, "A name for the client, and for replaces.",
			func(d *decoder, n *yaml.Node, to *rateDoc) { to.name = d.word(n, "name") },
		},
		{
			"replaces", false, `{"type": ["array", "null"], "items": {"type": "object", "properties": {"name": ` + schemaText + `}, "required": ["name"]}}`,
			"Limits that do not count beside this one, by name.",
			readReplaces,
		},
		{
			"algorithm", false, `{"type": "string", "examples": ["gcra", "sliding", "gcra burst 20"]}`,
			"An algorithm and its options, as for RL.TAKE, instead of the fixed windows of Envoy's rate limit service.",
			func(d *decoder, n *yaml.Node, to *rateDoc) { to.algorithm = d.spot(n, "algorithm") },
		},
	}
}

// maxReplaces is how many limits one limit replaces at most.
const maxReplaces = 1000

func readReplaces(d *decoder, n *yaml.Node, to *rateDoc) {
	if n.Kind == yaml.SequenceNode && len(n.Content) > maxReplaces {
		d.fail(n, "replaces has more than %d items", maxReplaces)
		return
	}
	d.items(n, "replaces", func(item *yaml.Node) {
		var one struct{ name spot }
		object(d, item, "an item of replaces", lenient([]row[struct{ name spot }]{{
			name: "name", read: func(d *decoder, n *yaml.Node, to *struct{ name spot }) { to.name = d.spot(n, "name") },
		}}, "an item of replaces"), &one)
		if one.name.text == "" {
			d.fail(item, "an item of replaces has no name")
			return
		}
		to.replaces = append(to.replaces, one.name)
	})
}

// word reads a text of a tree.
func (d *decoder) word(n *yaml.Node, kind string) string {
	s, _ := d.scalar(n, kind)
	if len(s) > maxWord {
		d.fail(n, "the %s has more than %d bytes", kind, maxWord)
		return ""
	}
	return s
}

// yesNo reads true or false, or one of the words that stand for them in YAML 1.1, spelled as that has them: oFf is none.
func (d *decoder) yesNo(n *yaml.Node, kind string) (yes bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 || n.Decode(&yes) != nil {
		d.fail(n, "%s must be true or false, not %s", kind, what(n))
		return false
	}
	return yes
}

// descriptors reads a list of descriptors, which may be empty.
func (r *treeReader) descriptors(list *yaml.Node) (all []*descriptorDoc) {
	if list.Tag == "!!null" {
		return nil
	}
	if r.depth++; r.depth > maxDepth {
		r.fail(list, "more than %d descriptors are inside one another", maxDepth)
		panic(errGiveUp)
	}
	defer func() { r.depth-- }()
	seen := map[string]bool{}
	r.items(list, "descriptors", func(item *yaml.Node) {
		n := r.descriptor(item)
		if word := n.word(); n.key != "" && seen[word] {
			r.fail(item, "there are two descriptors with the key %s and the value %s", quote(n.key), quote(n.value))
		} else {
			seen[word] = true
		}
		all = append(all, n)
	})
	return all
}

// descriptor reads a descriptor.
func (r *treeReader) descriptor(item *yaml.Node) *descriptorDoc {
	n := &descriptorDoc{at: item}
	if r.spoils(func() { object(r.decoder, item, "a descriptor", lenient(r.descriptorRows(), "a descriptor"), n) }) {
		return n
	}
	switch {
	case n.key == "":
		r.fail(nodeOf(item, "key"), "the key is empty")
	case n.share && !strings.HasSuffix(n.word(), "*"):
		r.fail(nodeOf(item, "share_threshold"), "share_threshold is for a value that ends with *")
	}
	r.checkRate(n)
	return n
}

// checkRate checks what the fields of a limit say together.
func (r *treeReader) checkRate(n *descriptorDoc) {
	rate := n.rate
	if rate == nil {
		return
	}
	for _, other := range rate.replaces {
		if other.text == rate.name {
			r.fail(other.at, "replaces has the name of the limit that it is in")
		}
	}
	switch _, known := ParseUnit(rate.unit.text); {
	case rate.unlimited && known:
		r.fail(rate.unit.at, "unit does not go with unlimited")
	case rate.unlimited && rate.algorithm.given():
		r.fail(rate.algorithm.at, "algorithm does not go with unlimited")
	case !rate.unlimited && !known:
		at := rate.unit.at
		if at == nil {
			at = n.at
		}
		r.fail(at, "unit must be second, minute, hour, day, week, month or year, not %s", quote(rate.unit.text))
	}
}

// tree reads the tree of a namespace.
func (d *decoder) tree(n *yaml.Node) *domainDoc {
	to := &domainDoc{at: n}
	r := &treeReader{decoder: d}
	object(d, n, "a namespace", lenient(r.domainRows(), "a namespace"), to)
	return to
}
