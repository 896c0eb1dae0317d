package simulate

import (
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	errJSON      = errors.New("the line is no JSON object")
	errJSONDeep  = errors.New("the JSON is nested too deeply")
	errJSONValue = errors.New("a field is neither a string nor a number")
)

// maxDepth is how deep JSON may be nested.
const maxDepth = 100

// jsonParser reads one JSON object from each line. It keeps the members that are
// wanted and checks the rest.
type jsonParser struct {
	key    key
	unit   Unit
	wants  []wanted
	times  int // the first of wants are names of the time, the first there is counts
	keys   int // then those of the key; the last is the cost
	text   []byte
	line   []byte
	at     int
	values [maxKeyFields][]byte
}

// wanted is a member by its path. The path a.b is b within a, and as well what is
// called "a.b": some write nested objects out flat.
type wanted struct {
	path []string // the names on the way
	rest []string // what is left of the whole path at each of them
	// value is the member's raw text, or its unquoted string; nil is none or null.
	value []byte
	bad   bool // it is an object or a list
}

func newJSONParser(o TraceOptions) *jsonParser {
	p := &jsonParser{unit: o.Unit}
	names := []string{o.Time}
	if o.Time == "" {
		names = timeNames()
	}
	p.times = len(names)
	if o.Key == nil {
		names = append(names, "key")
	}
	names = append(names, o.Key...)
	p.keys = len(names) - p.times
	if o.Cost == "" {
		o.Cost = "cost"
	}
	for _, name := range append(names, o.Cost) {
		w := wanted{path: strings.Split(name, ".")}
		for i := range w.path {
			w.rest = append(w.rest, strings.Join(w.path[i:], "."))
		}
		p.wants = append(p.wants, w)
	}
	return p
}

func (p *jsonParser) parse(line []byte, req *Request) (err error) {
	for i := range p.wants {
		p.wants[i].value, p.wants[i].bad = nil, false
	}
	p.line, p.at, p.text = line, 0, p.text[:0]
	p.blanks()
	if p.peek() != '{' {
		return errJSON
	}
	if err := p.object(0, 1<<len(p.wants)-1); err != nil {
		return err
	}
	if p.blanks(); p.at < len(line) {
		return errJSON
	}
	return p.request(req)
}

// request makes a request of the members found.
func (p *jsonParser) request(req *Request) (err error) {
	var time []byte
	for i := p.times - 1; i >= 0; i-- {
		if w := &p.wants[i]; w.value != nil {
			time = w.value
		} else if w.bad {
			return errJSONValue
		}
	}
	if time == nil {
		return errNoField
	}
	if req.Time, err = parseTime(time, p.unit); err != nil {
		return err
	}
	for i := range p.keys {
		w := &p.wants[p.times+i]
		switch {
		case w.bad:
			return errJSONValue
		case w.value == nil:
			return errNoField
		case len(w.value) == 0 && p.keys == 1:
			return errKeyMissing
		}
		p.values[i] = w.value
	}
	req.Key = p.key.join(p.values[:p.keys])
	if w := &p.wants[len(p.wants)-1]; w.bad {
		err = errCost
	} else if w.value != nil {
		req.Cost, err = parseCost(w.value)
	}
	return err
}

// object reads an object, at whose brace the parser stands. Bit i of set tells
// that the path so far is that of wants[i], as far as depth.
func (p *jsonParser) object(depth int, set uint64) error {
	if depth >= maxDepth {
		return errJSONDeep
	}
	p.at++
	if p.blanks(); p.take('}') {
		return nil
	}
	for {
		p.blanks()
		from := len(p.text)
		name, err := p.str()
		if err != nil {
			return err
		}
		ends, within := p.named(name, depth, set)
		p.text = p.text[:from]
		p.blanks()
		if !p.take(':') {
			return errJSON
		}
		if err := p.member(depth, ends, within); err != nil {
			return err
		}
		p.blanks()
		if p.take('}') {
			return nil
		}
		if !p.take(',') {
			return errJSON
		}
	}
}

// named tells which of set end with name at depth, and which go on within it.
func (p *jsonParser) named(name []byte, depth int, set uint64) (ends, within uint64) {
	for i := range p.wants {
		w := &p.wants[i]
		switch {
		case set&(1<<i) == 0 || depth >= len(w.path):
		case w.rest[depth] == string(name):
			ends |= 1 << i
		case w.path[depth] == string(name):
			within |= 1 << i
		}
	}
	return ends, within
}

// member reads a member's value, and keeps it for those that end here.
func (p *jsonParser) member(depth int, ends, within uint64) error {
	p.blanks()
	value, bad, err := p.value(depth, within)
	if err != nil || ends == 0 {
		return err
	}
	for i := range p.wants {
		if ends&(1<<i) != 0 {
			p.wants[i].value, p.wants[i].bad = value, bad
		}
	}
	return nil
}

// value reads any value. It returns a string's text, or what a number or a truth
// value looks like; nil for null; bad for an object or a list.
func (p *jsonParser) value(depth int, set uint64) (value []byte, bad bool, err error) {
	from := p.at
	switch c := p.peek(); {
	case c == '"':
		value, err = p.str()
		return value, false, err
	case c == '{':
		return nil, true, p.object(depth+1, set)
	case c == '[':
		return nil, true, p.list(depth + 1)
	case c == '-' || isDigit(c):
		if !p.number() {
			return nil, false, errJSON
		}
		return p.line[from:p.at], false, nil
	}
	for _, w := range [...]string{"true", "false", "null"} {
		if string(p.line[p.at:min(len(p.line), p.at+len(w))]) == w {
			p.at += len(w)
			if w == "null" {
				return nil, false, nil
			}
			return p.line[from:p.at], false, nil
		}
	}
	return nil, false, errJSON
}

// list reads a list, at whose bracket the parser stands.
func (p *jsonParser) list(depth int) error {
	if depth >= maxDepth {
		return errJSONDeep
	}
	p.at++
	if p.blanks(); p.take(']') {
		return nil
	}
	for {
		p.blanks()
		if _, _, err := p.value(depth, 0); err != nil {
			return err
		}
		p.blanks()
		if p.take(']') {
			return nil
		}
		if !p.take(',') {
			return errJSON
		}
	}
}

// number passes over a number.
func (p *jsonParser) number() bool {
	p.take('-')
	if !p.take('0') && !p.digits() {
		return false
	}
	if p.take('.') && !p.digits() {
		return false
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		return p.digits()
	}
	return true
}

func (p *jsonParser) digits() bool {
	from := p.at
	for p.at < len(p.line) && isDigit(p.line[p.at]) {
		p.at++
	}
	return p.at > from
}

// str reads a string: a part of the line, or of p.text if it has escapes.
func (p *jsonParser) str() ([]byte, error) {
	if !p.take('"') {
		return nil, errJSON
	}
	from := p.at
	for p.at < len(p.line) {
		switch c := p.line[p.at]; {
		case c == '"':
			p.at++
			return p.line[from : p.at-1], nil
		case c == '\\':
			return p.escaped(from)
		case c < ' ':
			return nil, errJSON
		}
		p.at++
	}
	return nil, errJSON
}

// escaped reads the rest of a string that began at from and has its first escape
// where the parser stands.
func (p *jsonParser) escaped(from int) ([]byte, error) {
	start := len(p.text)
	p.text = append(p.text, p.line[from:p.at]...)
	for p.at < len(p.line) {
		c := p.line[p.at]
		p.at++
		switch {
		case c == '"':
			return p.text[start:len(p.text):len(p.text)], nil
		case c < ' ':
			return nil, errJSON
		case c == '\\':
			if !p.escape() {
				return nil, errJSON
			}
		default:
			p.text = append(p.text, c)
		}
	}
	return nil, errJSON
}

// escape reads what follows a backslash.
func (p *jsonParser) escape() bool {
	c := p.peek()
	p.at++
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(from, c); i >= 0 {
		p.text = append(p.text, to[i])
		return true
	}
	if c != 'u' {
		return false
	}
	r, ok := p.hex()
	if !ok {
		return false
	}
	if utf16.IsSurrogate(r) {
		// As encoding/json has it: half a pair is the replacement character.
		back := p.at
		low := rune(0)
		if p.take('\\') && p.take('u') {
			if low, ok = p.hex(); !ok {
				return false
			}
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			p.at = back
		}
	}
	p.text = utf8.AppendRune(p.text, r)
	return true
}

// hex reads four hexadecimal digits.
func (p *jsonParser) hex() (r rune, ok bool) {
	if len(p.line)-p.at < 4 {
		return 0, false
	}
	for range 4 {
		c := p.line[p.at]
		p.at++
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// peek is the next byte, 0 at the end.
func (p *jsonParser) peek() byte {
	if p.at < len(p.line) {
		return p.line[p.at]
	}
	return 0
}

// take passes over c, if it is next.
func (p *jsonParser) take(c byte) bool {
	if p.at < len(p.line) && p.line[p.at] == c {
		p.at++
		return true
	}
	return false
}

// blanks passes over blanks.
func (p *jsonParser) blanks() {
	for p.at < len(p.line) {
		switch p.line[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}
