package rules

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Import translates the file of another limiter into a file of rules. format is "envoy", for the
// configuration of Envoy's ratelimit service, or "limitador", for a file of Limitador's limits. The
// notes say what could not be carried over. The error is an Errors, or names an unknown format.
func Import(format string, text []byte) (rules []byte, notes []string, err error) {
	root, err := parseTree(text)
	if err != nil {
		return nil, nil, err
	}
	im := importer{decoder: &decoder{}, names: map[string]bool{}}
	read := map[string]func(*yaml.Node){"envoy": im.envoy, "limitador": im.limitador}[format]
	if read == nil {
		return nil, nil, fmt.Errorf("unknown format %s: it is envoy or limitador", quote(format))
	}
	err = im.guard(func() {
		if root == nil {
			im.fail(nil, "the file is empty")
			return
		}
		read(im.resolve(root))
	})
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(outFile{1, im.namespaces}); err != nil {
		return nil, nil, err
	}
	if _, err := Parse(out.Bytes(), nil); err != nil {
		return nil, nil, fmt.Errorf("the translation has a mistake: %w", err)
	}
	slices.SortStableFunc(im.notes, func(a, b Error) int { return a.Line - b.Line })
	for _, n := range im.notes {
		notes = append(notes, fmt.Sprintf("line %d: %s", n.Line, n.Text))
	}
	return out.Bytes(), notes, nil
}

// outFile is a file as it is written.
type outFile struct {
	Version    int
	Namespaces map[string][]outEntry
}

type outEntry struct {
	outRule   `yaml:",inline"`
	Exclusive bool      `yaml:"exclusive,omitempty"`
	Rules     []outRule `yaml:"rules,omitempty"`
}

type outRule struct {
	Name      string            `yaml:"name,omitempty"`
	Match     map[string]string `yaml:"match,omitempty,flow"`
	Key       []string          `yaml:"key,omitempty,flow"`
	Limit     string            `yaml:"limit,omitempty"`
	Unlimited bool              `yaml:"unlimited,omitempty"`
	Mode      string            `yaml:"mode,omitempty"`
}

type importer struct {
	*decoder
	namespaces map[string][]outEntry
	notes      []Error
	names      map[string]bool
}

func (im *importer) note(n *yaml.Node, format string, args ...any) {
	if e := (Error{n.Line, n.Column, fmt.Sprintf(format, args...)}); !slices.Contains(im.notes, e) {
		im.notes = append(im.notes, e)
	}
}

// clean makes a name of a text: what names cannot have becomes _.
func clean(text string) string {
	name := []byte(text)
	for i, c := range name {
		if !isName(string(c)) && (i == 0 || !isName("a"+string(c))) {
			name[i] = '_'
		}
	}
	return string(name[:min(len(name), maxName)])
}

// named returns a name that no rule has yet.
func (im *importer) named(text string) string {
	base := cmp.Or(clean(text), "rule")
	name := base
	for i := 2; im.names[name]; i++ {
		end := "_" + strconv.Itoa(i)
		name = base[:min(len(base), maxName-len(end))] + end
	}
	im.names[name] = true
	return name
}

func (im *importer) add(namespace string, e outEntry) {
	if im.namespaces == nil {
		im.namespaces = map[string][]outEntry{}
	}
	im.namespaces[namespace] = append(im.namespaces[namespace], e)
}

// wildcard writes a value of Envoy's, in which stars stand for any bytes, as a pattern.
func wildcard(value string) string { return strings.ReplaceAll(value, `\`, `\\`) }

// literal writes a value as a pattern that matches only it.
func literal(value string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(value)
}

// Envoy's ratelimit service.

// envoyNode is a descriptor.
type envoyNode struct {
	at         *yaml.Node
	key, value string
	valued     bool
	rate       *yaml.Node
	shadow     bool
	shared     bool // all values of a wildcard share one counter
	children   []*envoyNode
}

func (im *importer) envoy(root *yaml.Node) {
	domain := nodeOf(root, "domain")
	if domain == nil {
		im.fail(root, "the file has no domain")
		return
	}
	im.namespaces = map[string][]outEntry{clean(domain.Value): nil} // a check is allowed also if there is no rule
	top := im.descriptors(nodeOf(root, "descriptors"))
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
	walk(top, nil)
	for _, path := range paths {
		if hasTwice(path) {
			im.note(root, "the descriptor %s has a key twice: left out", strings.Join(path, ", "))
			continue
		}
		var rules []outRule
		im.lookups(top, path, outRule{}, "", &rules)
		switch e := (outEntry{Exclusive: true, Rules: rules}); {
		case len(rules) == 1:
			im.add(clean(domain.Value), outEntry{outRule: rules[0]})
		case len(rules) > 1:
			im.add(clean(domain.Value), e)
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
	if list == nil {
		return nil
	}
	if list = im.resolve(list); list.Tag == "!!null" {
		return nil
	}
	im.items(list, "descriptors", func(item *yaml.Node) {
		n := &envoyNode{at: item}
		im.pairs(item, "a descriptor", func(key, value *yaml.Node) {
			switch value = im.resolve(value); key.Value {
			case "key":
				n.key, _ = im.scalar(value, "key")
				if !isName(n.key) {
					im.note(key, "the key %s is named %s", quote(n.key), clean(n.key))
					n.key = clean(n.key)
				}
			case "value":
				n.value, n.valued = im.scalar(value, "value")
			case "rate_limit":
				n.rate = value
			case "shadow_mode":
				n.shadow = n.shadow || im.yes(value, "shadow_mode")
			case "quota_mode":
				if im.yes(value, "quota_mode") {
					n.shadow = true
					im.note(key, "quota_mode denies nothing, as shadow mode does; what it tells the caller is not carried over")
				}
			case "share_threshold":
				n.shared = im.yes(value, "share_threshold")
			case "descriptors":
				n.children = im.descriptors(value)
			default:
				im.note(key, "%s is not carried over", key.Value)
			}
		})
		if n.key == "" {
			im.fail(item, "a descriptor has no key")
		}
		all = append(all, n)
	})
	rank := func(n *envoyNode) int {
		switch {
		case !n.valued:
			return 2
		case n.isWildcard():
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b *envoyNode) int { return rank(a) - rank(b) })
	return slices.DeleteFunc(all, func(n *envoyNode) bool { return im.hidden(n, all) })
}

// isWildcard reports whether the value has a star, which stands for any bytes.
func (n *envoyNode) isWildcard() bool { return n.valued && strings.Contains(n.value, "*") }

// hidden reports whether a wildcard is never looked up, since one before it takes all of its values.
func (im *importer) hidden(n *envoyNode, among []*envoyNode) bool {
	if !n.isWildcard() {
		return false
	}
	own := parsePattern(wildcard(n.value))
	for _, b := range among {
		if b == n {
			break
		}
		if p := parsePattern(wildcard(b.value)); b.key == n.key && b.isWildcard() && p.covers(&own) {
			im.note(n.at, "%s is never looked up, since %s comes before it: left out", quote(n.value), quote(b.value))
			return true
		}
	}
	return false
}

// lookups appends a rule for each way in which a descriptor with the keys of path can be looked up. The lookup
// never goes back: a value that is listed and leads nowhere means no limit.
func (im *importer) lookups(nodes []*envoyNode, path []string, so outRule, name string, rules *[]outRule) {
	found := false
	for _, n := range nodes {
		if n.key != path[0] {
			continue
		}
		found = true
		r := outRule{Match: map[string]string{}, Key: slices.Clone(so.Key)}
		for k, v := range so.Match {
			r.Match[k] = v
		}
		as := strings.TrimPrefix(name+"_"+n.key, "_")
		if n.valued {
			as += "_" + n.value
			r.Match[n.key] = literal(n.value)
			if n.isWildcard() {
				r.Match[n.key] = wildcard(n.value)
			}
		}
		if !n.valued || n.isWildcard() && !n.shared {
			r.Key = append(r.Key, n.key)
		}
		if len(path) > 1 {
			im.lookups(n.children, path[1:], r, as, rules)
			continue
		}
		im.rate(n, as, &r)
		*rules = append(*rules, r)
	}
	if !found && len(so.Match) > 0 {
		r := outRule{Name: im.named(name + "_none"), Match: so.Match, Key: append(slices.Clone(so.Key), path...), Unlimited: true}
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

// rate reads the limit of a descriptor.
func (im *importer) rate(n *envoyNode, name string, r *outRule) {
	r.Name = im.named(name)
	if n.shadow {
		r.Mode = Shadow.String()
	}
	if n.rate == nil {
		r.Unlimited = true
		return
	}
	unit, count, times := "", int64(0), int64(1)
	im.pairs(n.rate, "rate_limit", func(key, value *yaml.Node) {
		switch value = im.resolve(value); key.Value {
		case "unit":
			unit, _ = im.scalar(value, "unit")
		case "requests_per_unit":
			count = im.number(value, "requests_per_unit", 0, 1<<32-1)
		case "unit_multiplier":
			times = im.number(value, "unit_multiplier", 1, 1<<32-1)
		case "unlimited":
			r.Unlimited = im.yes(value, "unlimited")
		case "name":
		case "replaces":
			im.note(key, "replaces is not carried over: put the rules into one exclusive group")
		default:
			im.note(key, "%s is not carried over", key.Value)
		}
	})
	if r.Unlimited {
		r.Mode = ""
		return
	}
	for _, u := range envoyUnits {
		if strings.EqualFold(u.name, unit) {
			r.Limit = fmt.Sprintf("fixed %d/%d%s", count, u.number*times, u.unit)
			return
		}
	}
	im.fail(n.rate, "unit must be second, minute, hour, day, week, month or year, not %s", quote(unit))
}

// Limitador.

// limitadorTerm is a condition or a variable: a field, and what it is compared with.
var limitadorTerm = [...]*regexp.Regexp{
	regexp.MustCompile(`^\s*(?:descriptors\[0\]\[['"]([^'"]+)['"]\]|descriptors\[0\]\.([\w.]+)|([A-Za-z_][\w.]*))\s*(?:(==|!=)\s*(?:'([^'\\]*)'|"([^"\\]*)"|([\w./-]+))\s*)?$`),
}

// term reads a condition or a variable.
func (im *importer) term(n *yaml.Node) (field, op, value string, ok bool) {
	m := limitadorTerm[0].FindStringSubmatch(n.Value)
	if m == nil {
		return "", "", "", false
	}
	field = m[1] + m[2] + m[3]
	if !isName(field) {
		im.note(n, "the field %s is named %s", quote(field), clean(field))
		field = clean(field)
	}
	return field, m[4], m[5] + m[6] + m[7], true
}

func (im *importer) limitador(root *yaml.Node) {
	if list := nodeOf(root, "limits"); list != nil {
		root = im.resolve(list)
	}
	number := 0
	im.items(root, "the limits", func(item *yaml.Node) {
		number++
		var namespace, name string
		var except [][2]string
		r, most, seconds, ok := outRule{Match: map[string]string{}}, int64(0), int64(0), true
		im.pairs(item, "a limit", func(key, value *yaml.Node) {
			value = im.resolve(value)
			switch key.Value {
			case "namespace":
				namespace, _ = im.scalar(value, "namespace")
			case "name", "id":
				name = cmp.Or(name, value.Value)
			case "max_value":
				most = im.number(value, "max_value", 0, 1<<62)
			case "seconds":
				seconds = im.number(value, "seconds", 1, 1<<32-1)
			case "conditions":
				im.listed(value, "conditions", func(n *yaml.Node) {
					field, op, v, is := im.term(n)
					switch {
					case !is || op == "":
						ok = false
						im.note(n, "the condition %s cannot be carried over, so its limit is left out", quote(n.Value))
					case op == "==":
						r.Match[field] = literal(v)
					default:
						except = append(except, [2]string{field, literal(v)})
					}
				})
			case "variables":
				im.listed(value, "variables", func(n *yaml.Node) {
					field, op, _, is := im.term(n)
					if !is || op != "" {
						ok = false
						im.note(n, "the variable %s cannot be carried over, so its limit is left out", quote(n.Value))
						return
					}
					r.Key = append(r.Key, field)
				})
			default:
				im.note(key, "%s is not carried over", key.Value)
			}
		})
		switch {
		case namespace == "":
			im.fail(item, "a limit has no namespace")
		case seconds == 0:
			im.fail(item, "a limit has no seconds")
		}
		if !ok {
			return
		}
		r.Name = im.named(cmp.Or(name, fmt.Sprintf("limit_%d", number)))
		r.Limit = fmt.Sprintf("fixed %d/%ds first", most, seconds)
		im.limit(clean(namespace), r, except)
	})
}

// limit adds a rule that does not apply where one of the fields has the given value.
func (im *importer) limit(namespace string, r outRule, except [][2]string) {
	if len(except) == 0 {
		im.add(namespace, outEntry{outRule: r})
		return
	}
	var group []outRule
	for _, x := range except {
		if _, given := r.Match[x[0]]; !given {
			r.Match[x[0]] = "*"
		}
		group = append(group, outRule{Name: im.named(r.Name + "_except"), Match: map[string]string{x[0]: x[1]}, Unlimited: true})
	}
	im.add(namespace, outEntry{Exclusive: true, Rules: append(group, r)})
}

// listed calls fn for the items of a list that may be empty.
func (im *importer) listed(n *yaml.Node, kind string, fn func(*yaml.Node)) {
	if n.Tag == "!!null" {
		return
	}
	im.items(n, kind, func(item *yaml.Node) {
		if _, ok := im.scalar(item, kind); ok {
			fn(item)
		}
	})
}
