package rules

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// limitadorLimit is a limit of Limitador's.
type limitadorLimit struct {
	namespace, name string
	most, seconds   int64
	rule            outRule
	except          [][2]string // fields with the values for which there is no limit
	skip            bool        // it cannot be carried over
}

func (im *importer) limitadorRows() []row[limitadorLimit] {
	skip := func(n *yaml.Node, kind string, to *limitadorLimit) {
		to.skip = true
		im.note(n, "the %s %s cannot be carried over, so its limit is left out", kind, quote(n.Value))
	}
	name := func(d *decoder, n *yaml.Node, to *limitadorLimit) {
		text, _ := d.scalar(n, "the name")
		to.name = cmp.Or(to.name, text)
	}
	return []row[limitadorLimit]{
		{name: "namespace", required: true, read: func(d *decoder, n *yaml.Node, to *limitadorLimit) {
			if to.namespace, _ = d.scalar(n, "namespace"); to.namespace == "" {
				d.fail(n, "the namespace is empty")
			}
			to.namespace = im.renamed(n, "namespace", to.namespace)
		}},
		{name: "name", read: name},
		{name: "id", read: name},
		{name: "max_value", required: true, read: func(d *decoder, n *yaml.Node, to *limitadorLimit) {
			to.most = d.number(n, "max_value", 0, 1<<62)
		}},
		{name: "seconds", required: true, read: func(d *decoder, n *yaml.Node, to *limitadorLimit) {
			to.seconds = d.number(n, "seconds", 1, 1<<32-1)
		}},
		{name: "conditions", read: func(_ *decoder, n *yaml.Node, to *limitadorLimit) {
			im.listed(n, "condition", func(n *yaml.Node) {
				field, op, value := im.term(n)
				value = literal(value)
				was, given := to.rule.Match[field]
				switch {
				case op == "!=" && !slices.Contains(to.except, [2]string{field, value}):
					to.except = append(to.except, [2]string{field, value})
				case op == "==" && (!given || was == value):
					to.rule.Match[field] = value
				case op != "!=":
					skip(n, "condition", to)
				}
			})
		}},
		{name: "variables", read: func(_ *decoder, n *yaml.Node, to *limitadorLimit) {
			im.listed(n, "variable", func(n *yaml.Node) {
				switch field, op, _ := im.term(n); {
				case field == "" || op != "":
					skip(n, "variable", to)
				case !slices.Contains(to.rule.Key, field):
					to.rule.Key = append(to.rule.Key, field)
				}
			})
		}},
	}
}

func (im *importer) limitador(root *yaml.Node) {
	if list := nodeOf(root, "limits"); list != nil {
		root = im.resolve(list)
	}
	number := 0
	im.items(root, "the limits", func(item *yaml.Node) {
		number++
		l := limitadorLimit{rule: outRule{Match: map[string]string{}}}
		object(im.decoder, item, "a limit", im.limitadorRows(), &l)
		for _, x := range l.except {
			if value, given := l.rule.Match[x[0]]; given && value == x[1] {
				l.skip = true
				im.note(item, "the conditions never hold at once, so the limit is left out")
			}
		}
		if l.skip || l.seconds == 0 {
			return
		}
		l.rule.Name = im.named(cmp.Or(l.name, fmt.Sprintf("limit_%d", number)))
		l.rule.Limit = im.limit(item, fmt.Sprintf("fixed %d/%ds first", l.most, l.seconds))
		im.add(l.namespace, l.entry(im))
	})
}

// entry returns the rule; or, if there are exceptions, a group in which they come before it.
func (l *limitadorLimit) entry(im *importer) outEntry {
	if len(l.except) == 0 {
		return outEntry{outRule: l.rule}
	}
	var group []outRule
	for _, x := range l.except {
		if _, given := l.rule.Match[x[0]]; !given {
			l.rule.Match[x[0]] = "*"
		}
		group = append(group, outRule{Name: im.named(l.rule.Name + "_except"), Match: map[string]string{x[0]: x[1]}, Unlimited: true})
	}
	return outEntry{Exclusive: true, Rules: append(group, l.rule)}
}

// limitadorTerm is the syntax of a condition or a variable: a field, and what it is compared with.
const limitadorTerm = `^\s*(?:descriptors\[0\]\[['"]([^'"]+)['"]\]|descriptors\[0\]\.([\w.]+)|([A-Za-z_][\w.]*))\s*(?:(==|!=)\s*(?:'([^'\\]*)'|"([^"\\]*)"|([\w./-]+))\s*)?$`

// term reads a condition or a variable. The field is "" if it is something else.
func (im *importer) term(n *yaml.Node) (field, op, value string) {
	m := im.limitadorTerm.FindStringSubmatch(n.Value)
	if m == nil {
		return "", "", ""
	}
	return im.renamed(n, "field", m[1]+m[2]+m[3]), m[4], m[5] + m[6] + m[7]
}

// listed calls fn for the texts of a list that may be empty.
func (im *importer) listed(n *yaml.Node, kind string, fn func(*yaml.Node)) {
	if n.Tag == "!!null" {
		return
	}
	im.items(n, "the "+kind+"s", func(item *yaml.Node) {
		if _, ok := im.scalar(item, "a "+kind); ok {
			fn(item)
		}
	})
}
