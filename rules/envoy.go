package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// envoyFile is the configuration of Envoy's ratelimit service.
type envoyFile struct {
	domain      string
	descriptors []*envoyNode
}

// envoyNode is a descriptor.
type envoyNode struct {
	key, value string // without a value, any
	rate       *envoyRate
	shadow     bool
	shared     bool // all values of a wildcard share one counter
	children   []*envoyNode
	at         *yaml.Node
}

// envoyRate is the limit of a descriptor.
type envoyRate struct {
	unit         spot
	count, times int64
	unlimited    bool
	name         string
	replaces     []spot
}

func (im *importer) envoyFileRows() []row[envoyFile] {
	return []row[envoyFile]{
		{name: "domain", required: true, read: func(d *decoder, n *yaml.Node, to *envoyFile) {
			if domain, ok := d.scalar(n, "domain"); ok && domain == "" {
				d.fail(n, "the domain is empty")
			} else if ok {
				to.domain = im.renamed(n, "domain", domain)
			}
		}},
		{name: "descriptors", read: func(_ *decoder, n *yaml.Node, to *envoyFile) { to.descriptors = im.descriptors(n) }},
	}
}

func (im *importer) envoyNodeRows() []row[envoyNode] {
	return append(ignored[envoyNode](im, "detailed_metric", "value_to_metric", "metadata"), []row[envoyNode]{
		{name: "key", required: true, read: func(d *decoder, n *yaml.Node, to *envoyNode) {
			if key, ok := d.scalar(n, "key"); ok && key == "" {
				d.fail(n, "the key is empty")
			} else if ok {
				to.key = im.renamed(n, "key", key)
			}
		}},
		{name: "value", read: func(d *decoder, n *yaml.Node, to *envoyNode) { to.value, _ = d.scalar(n, "value") }},
		{name: "rate_limit", read: func(d *decoder, n *yaml.Node, to *envoyNode) {
			to.rate = &envoyRate{times: 1}
			object(d, n, "rate_limit", im.envoyRateRows(), to.rate)
		}},
		{name: "shadow_mode", read: func(d *decoder, n *yaml.Node, to *envoyNode) { to.shadow = d.yes(n, "shadow_mode") || to.shadow }},
		{name: "quota_mode", read: func(d *decoder, n *yaml.Node, to *envoyNode) {
			if d.yes(n, "quota_mode") {
				to.shadow = true
				im.note(n, "quota_mode denies nothing, as shadow mode does; what it tells the caller is not carried over")
			}
		}},
		{name: "share_threshold", read: func(d *decoder, n *yaml.Node, to *envoyNode) { to.shared = d.yes(n, "share_threshold") }},
		{name: "descriptors", read: func(_ *decoder, n *yaml.Node, to *envoyNode) { to.children = im.descriptors(n) }},
	}...)
}

func (im *importer) envoyRateRows() []row[envoyRate] {
	return append(ignored[envoyRate](im, "soft_requests_per_unit"), []row[envoyRate]{
		{name: "unit", read: func(d *decoder, n *yaml.Node, to *envoyRate) { to.unit = d.spot(n, "unit") }},
		{name: "requests_per_unit", read: func(d *decoder, n *yaml.Node, to *envoyRate) {
			to.count = d.number(n, "requests_per_unit", 0, 1<<32-1)
		}},
		{name: "unit_multiplier", read: func(d *decoder, n *yaml.Node, to *envoyRate) {
			to.times = d.number(n, "unit_multiplier", 1, 1<<32-1)
			im.note(n, "unit_multiplier, which only some builds of Envoy's service have, makes the window %d units long", to.times)
		}},
		{name: "unlimited", read: func(d *decoder, n *yaml.Node, to *envoyRate) { to.unlimited = d.yes(n, "unlimited") }},
		{name: "name", read: func(d *decoder, n *yaml.Node, to *envoyRate) { to.name, _ = d.scalar(n, "name") }},
		{name: "replaces", read: func(d *decoder, n *yaml.Node, to *envoyRate) {
			d.items(n, "replaces", func(item *yaml.Node) {
				object(d, item, "an item of replaces", []row[envoyRate]{{name: "name", required: true, read: func(d *decoder, n *yaml.Node, to *envoyRate) {
					if n.Value == "" {
						d.fail(n, "an item of replaces has no name")
						return
					}
					to.replaces = append(to.replaces, spot{n.Value, n})
				}}}, to)
			})
			im.note(n, "replaces is not carried over: put the rules into one exclusive group")
		}},
	}...)
}

func (im *importer) envoy(root *yaml.Node) {
	var file envoyFile
	object(im.decoder, root, "the file", im.envoyFileRows(), &file)
	im.namespaces[file.domain] = nil // a check is allowed also if there is no rule
	var paths [][]string
	var walk func(nodes []*envoyNode, path []string)
	walk = func(nodes []*envoyNode, path []string) {
		for _, n := range nodes {
			to := append(slices.Clone(path), n.key)
			if n.rate != nil && !slices.ContainsFunc(paths, func(p []string) bool { return slices.Equal(p, to) }) {
				paths = append(paths, to)
			}
			walk(n.children, to)
		}
	}
	walk(file.descriptors, nil)
	for _, path := range paths {
		if hasTwice(path) {
			im.note(root, "the descriptor %s has a key twice: left out", strings.Join(path, ", "))
			continue
		}
		var rules []outRule
		im.lookups(file.descriptors, path, outRule{}, "", &rules)
		for rules[len(rules)-1].none { // it keeps no other away
			rules = rules[:len(rules)-1]
		}
		switch {
		case len(rules) == 1:
			im.add(file.domain, outEntry{outRule: rules[0]})
		case len(rules) > 1:
			im.add(file.domain, outEntry{Exclusive: true, Rules: rules})
		}
	}
	if len(paths) > 1 {
		im.note(root, "Envoy decides which descriptors a request has; a check is limited by all rules whose fields it has")
	}
}

func hasTwice(path []string) bool {
	sorted := slices.Sorted(slices.Values(path))
	return len(slices.Compact(sorted)) < len(path)
}

// descriptors reads a list of descriptors, which may be empty. At each level, a value comes before a wildcard, the first
// in the file first, and that before any value.
func (im *importer) descriptors(list *yaml.Node) (all []*envoyNode) {
	if list.Tag == "!!null" {
		return nil
	}
	if im.depth++; im.depth > maxDepth {
		im.fail(list, "more than %d descriptors are inside one another", maxDepth)
		panic(errGiveUp)
	}
	defer func() { im.depth-- }()
	seen := map[[2]string]bool{}
	im.items(list, "descriptors", func(item *yaml.Node) {
		n := &envoyNode{at: item}
		object(im.decoder, item, "a descriptor", im.envoyNodeRows(), n)
		if id := [2]string{n.key, n.value}; !seen[id] {
			seen[id] = true
		} else {
			im.fail(item, "there are two descriptors with the key %s and the value %s", quote(n.key), quote(n.value))
		}
		all = append(all, n)
	})
	rank := func(n *envoyNode) int {
		switch {
		case n.value == "":
			return 2
		case n.isWildcard():
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b *envoyNode) int { return rank(a) - rank(b) })
	return slices.DeleteFunc(all, func(n *envoyNode) bool { return im.hidden(n, all) })
}

// isWildcard reports whether the value ends with a star, which stands for any bytes. Any other star is a star to Envoy.
func (n *envoyNode) isWildcard() bool { return strings.HasSuffix(n.value, "*") }

// pattern returns the value as a pattern.
func (n *envoyNode) pattern() string {
	if begin, ok := strings.CutSuffix(n.value, "*"); ok {
		return literal(begin) + "*"
	}
	return literal(n.value)
}

// hidden reports whether a wildcard is never looked up, since one before it takes all of its values.
func (im *importer) hidden(n *envoyNode, among []*envoyNode) bool {
	if !n.isWildcard() {
		return false
	}
	own := parsePattern(n.pattern())
	for _, b := range among {
		if b == n {
			break
		}
		if p := parsePattern(b.pattern()); b.key == n.key && b.isWildcard() && p.covers(&own) {
			im.note(n.at, "%s is never looked up, since %s comes before it: left out", quote(n.value), quote(b.value))
			return true
		}
	}
	return false
}

// lookups appends a rule for each way in which a descriptor with the keys of path can be looked up. The lookup
// never goes back: a value that is listed and leads nowhere means no limit.
func (im *importer) lookups(nodes []*envoyNode, path []string, so outRule, name string, rules *[]outRule) {
	rest := false // there is a descriptor for all other values
	for _, n := range nodes {
		if n.key != path[0] {
			continue
		}
		rest = rest || n.value == ""
		r := outRule{Match: map[string]string{}, Key: slices.Clone(so.Key)}
		maps.Copy(r.Match, so.Match)
		as := strings.TrimPrefix(name+"_"+n.key, "_")
		if n.value != "" {
			as += "_" + n.value
			r.Match[n.key] = n.pattern()
		}
		if n.value == "" || n.isWildcard() && !n.shared {
			r.Key = append(r.Key, n.key)
		}
		if len(path) > 1 {
			im.lookups(n.children, path[1:], r, as, rules)
			continue
		}
		im.rate(n, as, &r)
		*rules = append(*rules, r)
	}
	if !rest && len(so.Match) > 0 {
		r := outRule{Name: im.named(name + "_none"), Match: so.Match, Key: append(slices.Clone(so.Key), path...), Unlimited: true, none: true}
		*rules = append(*rules, r)
	}
}

// envoyUnits are the units of Envoy's limits. Its windows begin at multiples of the unit since the epoch; a month has
// 30 days and a year 365.
var envoyUnits = [...]struct {
	name   string
	number int64
	unit   string
}{{"second", 1, "s"}, {"minute", 1, "m"}, {"hour", 1, "h"}, {"day", 1, "d"}, {"week", 1, "w"}, {"month", 30, "d"}, {"year", 365, "d"}}

// rate gives a rule the limit of a descriptor.
func (im *importer) rate(n *envoyNode, name string, r *outRule) {
	r.Name = im.named(name)
	rate := n.rate
	if rate == nil {
		r.Unlimited = true
		return
	}
	for _, other := range rate.replaces {
		if other.text == rate.name {
			im.fail(other.at, "replaces has the name of the limit that it is in")
		}
	}
	if rate.unlimited {
		if rate.unit.given() {
			im.fail(rate.unit.at, "unit does not go with unlimited")
		}
		r.Unlimited = true
		return
	}
	if n.shadow {
		r.Mode = Shadow.String()
	}
	for _, u := range envoyUnits {
		if strings.EqualFold(u.name, rate.unit.text) {
			r.Limit = im.limit(n.at, fmt.Sprintf("fixed %d/%d%s countdenied", rate.count, u.number*rate.times, u.unit)) // Envoy's service counts what it denies
			return
		}
	}
	im.fail(cmp.Or(rate.unit.at, n.at), "unit must be second, minute, hour, day, week, month or year, not %s", quote(rate.unit.text))
}
