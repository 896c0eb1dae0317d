package rules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"limitdb/internal/suggest"
)

// The text of a file becomes a tree of YAML nodes, which the tables in fields.go read into plain
// structs. The tables are the one description of the file: the decoder, its errors and the JSON
// Schema come from them.

// The bounds of a file besides MaxText. A node of the tree takes some 200 bytes.
const (
	// maxMarks is the most commas, colons, brackets, dashes and line ends in a file. They bound the number of nodes.
	maxMarks = 1 << 19
	// maxVisits is the most nodes that are read; an alias counts as the nodes that it stands for.
	maxVisits = 1 << 20
	maxDepth  = 100
)

// decoder reads the nodes of one file and notes what is wrong with them.
type decoder struct {
	errs   Errors
	notes  map[Error]bool // what is no mistake, but may not be what is meant
	visits int
}

// note notes what somebody should know who has written a file.
func (d *decoder) note(n *yaml.Node, format string, args ...any) {
	if d.notes == nil {
		d.notes = map[Error]bool{}
	}
	d.notes[Error{n.Line, n.Column, fmt.Sprintf(format, args...)}] = true
}

// noted returns the notes in the order of the file.
func (d *decoder) noted() []string {
	var all Errors
	for n := range d.notes {
		all = append(all, &n)
	}
	slices.SortFunc(all, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	notes := make([]string, len(all))
	for i, n := range all {
		notes[i] = fmt.Sprintf("line %d: %s", n.Line, n.Text)
	}
	return notes
}

// row is one field of a kind of object.
type row[T any] struct {
	name     string
	required bool
	schema   string // in JSON
	doc      string
	read     func(d *decoder, n *yaml.Node, to *T)
}

// fail notes a mistake. When there are many, it gives up on the file by panicking with errGiveUp.
func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	line, column := 1, 1
	if n != nil && n.Line > 0 {
		line, column = n.Line, n.Column
	}
	d.errs = append(d.errs, &Error{line, column, fmt.Sprintf(format, args...)})
	if len(d.errs) >= maxErrors {
		d.errs = append(d.errs, &Error{line, column, "these are the first mistakes that were found; there may be more"})
		panic(errGiveUp)
	}
}

// spoils reports whether fn notes mistakes.
func (d *decoder) spoils(fn func()) bool {
	before := len(d.errs)
	fn()
	return len(d.errs) > before
}

// errGiveUp ends the reading of a file.
var errGiveUp = errors.New("rules: too many mistakes")

// guard runs fn, and returns the mistakes that it has noted.
func (d *decoder) guard(fn func()) (err error) {
	defer func() {
		if r := recover(); r != nil && r != errGiveUp {
			panic(r)
		}
		if len(d.errs) > 0 {
			d.errs.sort()
			err = d.errs
		}
	}()
	fn()
	return nil
}

// parseTree parses a text into its only document. It returns nil for a text without one.
func parseTree(text []byte) (*yaml.Node, error) {
	if len(text) > MaxText {
		return nil, Errors{{1, 1, fmt.Sprintf("the file has more than %d bytes", MaxText)}}
	}
	if err := countMarks(text); err != nil {
		return nil, Errors{err}
	}
	lines := &lineReader{rest: text}
	dec := yaml.NewDecoder(lines)
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case err == io.EOF || err == nil && len(doc.Content) == 0:
		return nil, nil
	case err != nil:
		return nil, Errors{syntaxError(text, err, lines.n)}
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, Errors{{max(second.Line, 1), max(second.Column, 1), "the file has a second document"}}
	case err != io.EOF:
		return nil, Errors{syntaxError(text, err, lines.n)}
	}
	return doc.Content[0], nil
}

// lineReader reads a text line by line, so that the parser has read no further than it had to.
type lineReader struct {
	rest []byte
	n    int  // lines that have been read, or a part of them
	half bool // only a part of the last one
}

func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(r.rest))
	n = copy(p, r.rest[:cmp.Or(bytes.IndexByte(r.rest[:n], '\n')+1, n)])
	if !r.half {
		r.n++
	}
	r.half, r.rest = p[n-1] != '\n', r.rest[n:]
	return n, nil
}

// countMarks refuses a text whose tree would be far larger than that of any file of rules.
func countMarks(text []byte) *Error {
	marks, depth, line, start := 0, 0, 1, 0
	for i, c := range text {
		switch c {
		case '\n':
			line, start = line+1, i+1
			marks++
		case '[', '{':
			depth++
			marks++
		case ']', '}':
			depth = max(0, depth-1)
		case ',', ':', '-', '?', '&', '*', '!':
			marks++
		}
		switch {
		case marks > maxMarks:
			return &Error{line, i - start + 1, fmt.Sprintf("the file is too large: more than %d values", maxMarks)}
		case depth > maxDepth:
			return &Error{line, i - start + 1, fmt.Sprintf("more than %d brackets are open", maxDepth)}
		}
	}
	return nil
}

// syntaxError converts an error of the YAML parser, which has read the given number of lines. The column is that of the
// line's first word.
func syntaxError(text []byte, err error, read int) *Error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{1, 1, message}
	if at := placeOf(text, message); at > 0 {
		e.Line = 1 + bytes.Count(text[:at], []byte("\n"))
		e.Column = at - bytes.LastIndexByte(text[:at], '\n')
		return e
	}
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Text = message[len(m[0]):]
	}
	// These errors count from 0, and name the line on which the list or mapping begins. That of brackets is of use; of
	// others, the mistake is where the parser has stopped to read.
	switch strings.TrimPrefix(e.Text, "did not find expected ") {
	case "'-' indicator", "key":
		e.Line = read
	case "',' or ']'", "',' or '}'", "node content", "<document start>":
		e.Line++
	}
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	e.Line = min(e.Line, len(lines))
	line := lines[e.Line-1]
	e.Column = len(line) - len(bytes.TrimLeft(line, " \t")) + 1
	return e
}

// placeOf finds the place of the errors that name no line. It returns -1 for others.
func placeOf(text []byte, message string) int {
	if name, ok := strings.CutPrefix(message, "unknown anchor '"); ok {
		return bytes.Index(text, []byte("*"+strings.TrimSuffix(name, "' referenced")))
	}
	if message == "control characters are not allowed" {
		return bytes.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f })
	}
	return -1
}

// resolve follows an alias. Every read of a node calls it. So aliases of aliases, which may stand for more than fits in
// memory, soon hit the limit.
func (d *decoder) resolve(n *yaml.Node) *yaml.Node {
	if d.visits++; d.visits > maxVisits {
		d.fail(n, "the file is too large: its aliases stand for more than %d values", maxVisits)
		panic(errGiveUp)
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// what describes a node in an error.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return quote(n.Value)
}

// object reads a mapping by the rows of its table.
func object[T any](d *decoder, n *yaml.Node, kind string, rows []row[T], to *T) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%s must be a mapping, not %s", kind, what(n))
		return
	}
	seen := map[string]bool{}
	d.pairs(n, kind, func(key, value *yaml.Node) {
		i := slices.IndexFunc(rows, func(r row[T]) bool { return r.name == key.Value })
		if i < 0 {
			hint := ""
			if near, ok := suggest.Nearest(key.Value, rows, func(r row[T]) string { return r.name }); ok {
				hint = fmt.Sprintf("; did you mean %q?", near)
			}
			d.fail(key, "%s has no field %s%s", kind, quote(key.Value), hint)
			return
		}
		seen[key.Value] = true
		rows[i].read(d, d.resolve(value), to)
	})
	for _, r := range rows {
		if r.required && !seen[r.name] {
			d.fail(n, "%s has no %q", kind, r.name)
		}
	}
}

// pairs calls fn for the pairs of a mapping, and refuses a key that is given twice.
func (d *decoder) pairs(n *yaml.Node, kind string, fn func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%s must be a mapping, not %s", kind, what(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := d.resolve(n.Content[i])
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fail(key, "a name must be a text, not %s", what(key))
		case key.Tag == "!!merge":
			d.fail(key, `merging with "<<" is not supported: write the fields out`)
		case seen[key.Value]:
			d.fail(key, "%s is given twice", quote(key.Value))
		default:
			seen[key.Value] = true
			fn(key, n.Content[i+1])
		}
	}
}

// items calls fn for the items of a list.
func (d *decoder) items(n *yaml.Node, kind string, fn func(item *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "%s must be a list, not %s", kind, what(n))
		return
	}
	for _, item := range n.Content {
		fn(d.resolve(item))
	}
}

// scalar reads a text. Numbers, dates and the like count as the text that they are written as.
func (d *decoder) scalar(n *yaml.Node, kind string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.fail(n, "%s must be a text, not %s", kind, what(n))
		return "", false
	}
	return n.Value, true
}

// name reads the name of something.
func (d *decoder) name(n *yaml.Node, kind string) string {
	s, ok := d.scalar(n, kind)
	if ok && !isName(s) {
		d.fail(n, "%s must be a letter, digit or _, then any of these or of . / -, at most %d in all, not %s", kind, maxName, quote(s))
	}
	return s
}

// namePattern is isName as a regular expression, for the JSON Schema.
const namePattern = `^[A-Za-z0-9_][A-Za-z0-9_./-]{0,63}$`

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
		if !letter && (i == 0 || c != '.' && c != '/' && c != '-') {
			return false
		}
	}
	return 0 < len(s) && len(s) <= maxName
}

// number reads an integer from least to most. It refuses a zero in front: 010 is 8 to some readers of YAML, Envoy's rate limit service
// among them, and 10 to others.
func (d *decoder) number(n *yaml.Node, kind string, least, most int64) int64 {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if digits := strings.TrimLeft(n.Value, "+-"); n.Tag == "!!int" && err == nil && len(digits) > 1 && digits[0] == '0' {
		d.fail(n, "%s must be an integer without a zero in front, not %s", kind, what(n))
		return least
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || v < least || v > most {
		d.fail(n, "%s must be an integer from %d to %d, not %s", kind, least, most, what(n))
		return least
	}
	return v
}

// yes reads true or false.
func (d *decoder) yes(n *yaml.Node, kind string) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		d.fail(n, "%s must be true or false, not %s", kind, what(n))
		return false
	}
	return strings.EqualFold(n.Value, "true")
}

// spot is a text and its place in the file.
type spot struct {
	text string
	at   *yaml.Node
}

func (s spot) given() bool { return s.at != nil }

func (d *decoder) spot(n *yaml.Node, kind string) spot {
	text, ok := d.scalar(n, kind)
	if !ok {
		return spot{}
	}
	return spot{text, n}
}
