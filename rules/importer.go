package rules

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
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
	im := importer{
		decoder: &decoder{}, namespaces: map[string][]outEntry{}, names: map[string]bool{},
		limitadorTerm: regexp.MustCompile(limitadorTerm),
	}
	read := map[string]func(*yaml.Node){"envoy": im.envoy, "limitador": im.limitador}[format]
	if read == nil {
		return nil, nil, fmt.Errorf("unknown format %s: use envoy or limitador", quote(format))
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
	return out.Bytes(), im.noted(), nil
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

	none bool // nothing is found, which keeps the rules after it away
}

type importer struct {
	*decoder
	namespaces    map[string][]outEntry
	names         map[string]bool // of rules
	limitadorTerm *regexp.Regexp
	depth         int // of descriptors in descriptors, which an alias can make endless
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

// renamed makes a name of a text, and notes if it is another.
func (im *importer) renamed(n *yaml.Node, kind, text string) string {
	name := clean(text)
	if name != text {
		im.note(n, "the %s %s is named %s", kind, quote(text), name)
	}
	return name
}

// limit returns a limit, and fails if there is no such limit here.
func (im *importer) limit(at *yaml.Node, text string) string {
	if _, err := parseLimit(text, "", beside{}, nil); err != nil {
		im.fail(at, "%v", err)
	}
	return text
}

// ignored returns the rows of fields that cannot be carried over.
func ignored[T any](im *importer, names ...string) (rows []row[T]) {
	for _, name := range names {
		rows = append(rows, row[T]{name: name, read: func(_ *decoder, n *yaml.Node, _ *T) { im.note(n, "%s is not carried over", name) }})
	}
	return rows
}

func (im *importer) add(namespace string, e outEntry) {
	im.namespaces[namespace] = append(im.namespaces[namespace], e)
}

// literal writes a value as a pattern that matches only it.
func literal(value string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(value)
}
