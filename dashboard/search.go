package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"limitdb/rules"
)

// hit is what a search has found: a key, or a rule.
type hit struct {
	Kind string `json:"kind"` // key, rule
	ID   string `json:"id"`   // of a key
	Text string `json:"text"`
	Note string `json:"note"`
	// Of a rule.
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"name,omitempty"`
}

// The bounds of a search.
const (
	maxHits    = 12
	maxQuery   = 8 << 10 // bytes
	searchTime = 500 * time.Millisecond
	topSearch  = 1000   // keys that are asked for most often
	scanStep   = "4096" // keys
	maxPattern = 1024   // bytes, of SCAN
)

// search answers with the keys and rules whose name begins with a text. Names are what the page shows. It looks first at the keys
// that are denied or asked for most often, and then through all keys, for a bounded time.
func (d *Dashboard) search(w http.ResponseWriter, r *http.Request) {
	var q struct{ Q string }
	if !readJSON(w, r, &q) {
		return
	}
	text := q.Q
	if text == "" || len(text) > maxQuery {
		refuse(w, http.StatusBadRequest, "a search has 1 to 8192 bytes")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), searchTime)
	defer cancel()
	s := searching{do: d.Do, ctx: ctx, text: text, seen: map[string]bool{}, hits: []hit{}}
	s.exact()
	s.rules()
	s.frequent("LIMITED", "denied often")
	s.frequent("REQUESTS", "asked for often")
	whole := s.scan()
	answer(w, http.StatusOK, map[string]any{"hits": s.hits, "whole": whole})
}

// searching is a search under way.
type searching struct {
	do   Commands
	ctx  context.Context
	text string
	seen map[string]bool // keys, and names of rules after a NUL
	hits []hit
}

func (s *searching) add(h hit, name string) {
	if len(s.hits) < maxHits && !s.seen[name] {
		s.seen[name] = true
		s.hits = append(s.hits, h)
	}
}

func (s *searching) addKey(key, note string) {
	s.add(hit{Kind: "key", ID: idOf(key), Text: rules.KeyText(key), Note: note}, key)
}

// exact finds the key that the text is: as a client named it, or as the page shows it.
func (s *searching) exact() {
	if v, err := s.do.ask(s.ctx, "RL.INFO", s.text); err == nil && !v.Null {
		s.addKey(s.text, v.Elems[1].Text)
	}
	if key, err := strconv.Unquote(s.text); err == nil && key != s.text {
		if v, err := s.do.ask(s.ctx, "RL.INFO", key); err == nil && !v.Null {
			s.addKey(key, v.Elems[1].Text)
		}
	}
	for _, n := range parseName(s.text) {
		s.caller(n)
	}
}

// caller finds the caller of a rule.
func (s *searching) caller(n name) {
	fields, _, err := s.do.keyFields(s.ctx, n.namespace, n.rule)
	if err != nil || len(fields) == 0 || len(fields) > len(n.values) {
		return
	}
	last := len(fields) - 1 // its value may have blanks
	n.values = append(slices.Clone(n.values[:last]), strings.Join(n.values[last:], " "))
	words := []string{"RL.RULES", "KEYS", n.namespace, n.rule}
	for i, f := range fields {
		words = append(words, f, n.values[i])
	}
	keys, err := s.do.ask(s.ctx, words...)
	if err != nil {
		return
	}
	for _, key := range texts(keys) {
		if v, err := s.do.ask(s.ctx, "RL.INFO", key); err == nil && !v.Null {
			s.addKey(key, v.Elems[1].Text)
		}
	}
}

// rules finds rules whose name, with or without the namespace, begins with the text.
func (s *searching) rules() {
	namespaces, err := s.do.ask(s.ctx, "RL.RULES", "LIST")
	if err != nil {
		return
	}
	for _, ns := range texts(namespaces) {
		list, err := s.do.ask(s.ctx, "RL.RULES", "LIST", ns)
		if err != nil || s.ctx.Err() != nil {
			continue
		}
		for _, e := range list.Elems {
			f := fieldsOf(e)
			rule, whole := f.text("name"), ns+"/"+f.text("name")
			if strings.HasPrefix(whole, s.text) || strings.HasPrefix(rule, s.text) {
				s.add(hit{Kind: "rule", Text: whole, Note: f.text("limit"), Namespace: ns, Name: rule}, "\x00"+whole)
			}
		}
	}
}

// frequent finds keys among those that are denied or asked for most often.
func (s *searching) frequent(by, note string) {
	for _, k := range s.do.top(s.ctx, topSearch, "BY", by) {
		if key, ok := keyOf(k.ID); ok && (strings.HasPrefix(k.Text, s.text) || strings.HasPrefix(key, s.text)) && !isCut(key) {
			s.addKey(key, note)
		}
	}
}

// cutAt is how many bytes of a long key RL.TOP shows, with cutTail bytes behind them.
const (
	cutAt   = 82
	cutTail = len("...01234567")
)

// isCut reports whether a key may be the beginning of a longer one, as RL.TOP shows it.
func isCut(key string) bool {
	return len(key) == cutAt+cutTail && key[cutAt:cutAt+3] == "..."
}

// scan looks through all keys, and reports whether it came to the end.
func (s *searching) scan() (whole bool) {
	var patterns []string
	for _, n := range parseName(s.text) {
		_, n.tagged, _ = s.do.keyFields(s.ctx, n.namespace, n.rule)
		patterns = append(patterns, n.pattern())
	}
	patterns = append(patterns, escape(s.text)+"*")
	for _, p := range patterns {
		if len(p) > maxPattern {
			continue // of such keys, exact finds those that are named whole
		}
		for cursor := "0"; ; {
			if len(s.hits) == maxHits || s.ctx.Err() != nil {
				return false
			}
			v, err := s.do.ask(s.ctx, "SCAN", cursor, "MATCH", p, "COUNT", scanStep)
			if err != nil || len(v.Elems) != 2 {
				return false
			}
			for _, key := range texts(v.Elems[1]) {
				s.addKey(key, "")
			}
			if cursor = v.Elems[0].Text; cursor == "0" {
				break
			}
		}
	}
	return true
}

// escape returns a pattern that matches a text only.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(`*?[]\^`, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// name is the name of a rule's caller, or the beginning of one, as the page shows it.
type name struct {
	namespace, rule string
	values          []string
	tagged          int // which value is a hash tag in the key, from 1; 0: none
}

// pattern returns a pattern for the keys of the callers whose names begin so.
func (n *name) pattern() string {
	p := escape(rules.Prefix) + "????:" + escape(n.namespace) + ":" + escape(n.rule)
	in := strings.NewReplacer("%", "%25", ":", "%3A", "#", "%23", "{", "%7B", "}", "%7D")
	for i, v := range n.values {
		v = in.Replace(v)
		switch last := i == len(n.values)-1; {
		case i+1 != n.tagged:
		case last:
			v = "{" + v
		default:
			v = "{" + cmp.Or(v, "%") + "}"
		}
		p += ":" + escape(v)
	}
	return p + "*"
}

// maxNames is how many names one text may be.
const maxNames = 4

// parseName parses the name of a rule's caller: namespace/rule, and the values with blanks between them. A value that cannot be printed is
// quoted as in Go. The names of namespaces and rules may have strokes, so that a text may be several names.
func parseName(text string) (all []name) {
	head, rest, more := strings.Cut(strings.TrimSuffix(text, " (candidate)"), " ")
	var values []string
	for more {
		var value string
		if q, err := strconv.QuotedPrefix(rest); err == nil && q[0] == '"' {
			value, _ = strconv.Unquote(q) // it is quoted
			rest, more = strings.CutPrefix(rest[len(q):], " ")
		} else {
			value, rest, more = strings.Cut(rest, " ")
		}
		values = append(values, value)
	}
	for i := range len(head) {
		if head[i] == '/' && i > 0 && len(all) < maxNames {
			all = append(all, name{namespace: head[:i], rule: head[i+1:], values: values})
		}
	}
	return all
}
