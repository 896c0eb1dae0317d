package rules

import (
	"bytes"
	"errors"

	"go.yaml.in/yaml/v3"
)

// Errors of Try and Settle.
var (
	// ErrTry is returned for a change that cannot be tried beside the rule in force.
	ErrTry = errors.New("only another limit can be tried beside the one in force: the rest of the rule must stay as it is")
	// ErrNoCandidate is returned for a rule without a candidate.
	ErrNoCandidate = errors.New("the rule has no candidate")
)

// Try returns the text of a rule that keeps its limit, and has the limit of another text of it as its candidate. The two texts may differ in
// nothing else but the candidate.
func Try(now, next []byte) ([]byte, error) {
	old, err := ruleText(now)
	if err != nil {
		return nil, err
	}
	wanted, err := ruleText(next)
	if err != nil {
		return nil, err
	}
	limit := nodeOf(wanted, "limit")
	if limit == nil || nodeOf(old, "limit") == nil || nodeOf(old, "plan") != nil || limit.Value == nodeOf(old, "limit").Value {
		return nil, ErrTry
	}
	set(wanted, "limit", nodeOf(old, "limit"))
	for _, n := range []*yaml.Node{old, wanted} {
		set(n, "candidate", limit)
	}
	text, err := encode(old)
	if err != nil {
		return nil, err
	}
	if other, err := encode(wanted); err != nil || !bytes.Equal(plain(text), plain(other)) {
		return nil, ErrTry
	}
	return text, nil
}

// Settle returns the text of a rule without its candidate, which becomes the limit if adopt is true.
func Settle(now []byte, adopt bool) ([]byte, error) {
	rule, err := ruleText(now)
	if err != nil {
		return nil, err
	}
	candidate := nodeOf(rule, "candidate")
	if candidate == nil {
		return nil, ErrNoCandidate
	}
	if adopt {
		set(rule, "limit", candidate)
	}
	set(rule, "candidate", nil)
	return encode(rule)
}

// ruleText parses the text of a rule.
func ruleText(text []byte) (*yaml.Node, error) {
	n, err := parseWritten(text)
	if err != nil {
		return nil, err
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, Errors{{1, 1, "a rule must be a mapping"}}
	}
	return n, nil
}

// set gives a field of a mapping a value, and removes the field if that is nil.
func set(n *yaml.Node, field string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != field {
			continue
		}
		if value == nil {
			n.Content = append(n.Content[:i], n.Content[i+2:]...)
		} else {
			n.Content[i+1] = value
		}
		return
	}
	if value != nil {
		n.Content = append(n.Content, text(field), value)
	}
}

// plain returns the text of a rule without comments and style, with its fields in the order of their names.
func plain(text []byte) []byte {
	var v map[string]any
	if yaml.Unmarshal(text, &v) != nil {
		return nil
	}
	out, _ := yaml.Marshal(v) // what was just parsed
	return out
}
