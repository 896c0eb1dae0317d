package rules

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Empty is a file without rules.
const Empty = "version: 1\nnamespaces: {}\n"

// Errors of an edit, besides an Errors of what was given.
var (
	// ErrNoRule is returned for a rule that there is not.
	ErrNoRule = errors.New("there is no such rule")
	// ErrName is returned for a rule with another name than it is set under.
	ErrName = errors.New("the rule has another name")

	errTree      = errors.New("the namespace has a tree of descriptors, so it has no rules: change the whole file, with RL.RULES LOAD")
	errNamespace = errors.New("a namespace's name must be a letter, digit or _, then any of these or of . / -, at most " + strconv.Itoa(maxName) + " in all")
)

// Set returns the text of a file in which a rule, written in YAML or JSON, has been added to the end of a
// namespace, or has replaced the one of its name in its place. Mistakes in the rule are at their places in it. What
// it means beside the others is not checked: parse the text.
func (s *Set) Set(namespace, name string, rule []byte) ([]byte, error) {
	n, err := parseWritten(rule)
	if err != nil {
		return nil, err
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, Errors{{1, 1, "a rule must be a mapping"}}
	}
	switch named := nodeOf(n, "name"); {
	case named == nil:
		n.Content = append([]*yaml.Node{text("name"), text(name)}, n.Content...)
	case named.Value != name:
		return nil, ErrName
	}
	if !isName(namespace) {
		return nil, errNamespace
	}
	return s.edit(func(root *yaml.Node) error {
		if err := checkRule(root, n); err != nil {
			return err
		}
		if list, i, err := findRule(root, namespace, name); err == nil {
			list.Content[i] = n
			return nil
		}
		all := nodeOf(root, "namespaces")
		ns := nodeOf(all, namespace)
		if ns == nil {
			ns = &yaml.Node{Kind: yaml.SequenceNode}
			all.Style, all.Content = 0, append(all.Content, text(namespace), ns)
		}
		if ns = listOf(ns); ns.Kind == yaml.MappingNode {
			return errTree
		}
		ns.Style, ns.Content = 0, append(ns.Content, n)
		return nil
	})
}

// checkRule finds the mistakes in a rule before it is added to a file.
func checkRule(root, rule *yaml.Node) error {
	d := &decoder{}
	c := compiler{decoder: d, set: &Set{byName: map[string]*Namespace{}}}
	return d.guard(func() {
		var doc fileDoc
		object(d, root, "the file", fileRows(), &doc)
		doc.namespaces = nil
		c.file(&doc)
		c.ns = newNamespace("")
		if r := d.rule(rule); len(d.errs) == 0 {
			c.rule(&r)
		}
	})
}

// Delete returns the text of a file without a rule. A namespace or a group goes with its last rule.
func (s *Set) Delete(namespace, name string) ([]byte, error) {
	return s.edit(func(root *yaml.Node) error {
		list, i, err := findRule(root, namespace, name)
		if err != nil {
			return err
		}
		list.Content = append(list.Content[:i], list.Content[i+1:]...)
		all := nodeOf(root, "namespaces")
		whole := nodeOf(all, namespace)
		ns := listOf(whole)
		for j, entry := range ns.Content {
			if nodeOf(entry, "rules") == list && len(list.Content) == 0 {
				ns.Content = append(ns.Content[:j], ns.Content[j+1:]...)
				break
			}
		}
		for j := 0; len(ns.Content) == 0 && j < len(all.Content); j += 2 {
			if all.Content[j+1] == whole {
				all.Content = append(all.Content[:j], all.Content[j+2:]...)
				break
			}
		}
		return nil
	})
}

// SetMode returns the text of a file in which a rule has a mode.
func (s *Set) SetMode(namespace, name string, mode Mode) ([]byte, error) {
	return s.edit(func(root *yaml.Node) error {
		list, i, err := findRule(root, namespace, name)
		if err != nil {
			return err
		}
		rule := list.Content[i]
		if n := nodeOf(rule, "mode"); n != nil {
			*n = *text(mode.String())
			return nil
		}
		rule.Content = append(rule.Content, text("mode"), text(mode.String()))
		return nil
	})
}

// Excerpt returns a rule as it is written, or the whole list of a namespace if name is "".
func (s *Set) Excerpt(namespace, name string) ([]byte, error) {
	root, err := parseWritten(s.text)
	if err != nil {
		return nil, err
	}
	if name == "" {
		ns := nodeOf(nodeOf(root, "namespaces"), namespace)
		if ns == nil {
			return nil, ErrNoRule
		}
		return encode(ns)
	}
	list, i, err := findRule(root, namespace, name)
	if err != nil {
		return nil, err
	}
	return encode(list.Content[i])
}

// edit applies fn to the tree of the file and returns its text.
func (s *Set) edit(fn func(root *yaml.Node) error) ([]byte, error) {
	root, err := parseWritten(s.text)
	if err != nil {
		return nil, err
	}
	if err := fn(root); err != nil {
		return nil, err
	}
	return encode(root)
}

// listOf returns the list of a namespace's rules, which may be in a mapping with more fields.
func listOf(ns *yaml.Node) *yaml.Node {
	if list := nodeOf(ns, "rules"); list != nil {
		return list
	}
	return ns
}

// findRule finds a rule: the list that it is in, and its index there.
func findRule(root *yaml.Node, namespace, name string) (list *yaml.Node, i int, err error) {
	ns := listOf(nodeOf(nodeOf(root, "namespaces"), namespace))
	if ns == nil {
		return nil, 0, ErrNoRule
	}
	lists := []*yaml.Node{ns}
	for _, entry := range ns.Content {
		if group := nodeOf(entry, "rules"); group != nil {
			lists = append(lists, group)
		}
	}
	for _, list := range lists {
		for i, rule := range list.Content {
			if n := nodeOf(rule, "name"); n != nil && n.Value == name {
				return list, i, nil
			}
		}
	}
	return nil, 0, ErrNoRule
}

// parseWritten is parseTree, but writes out what aliases stand for, so that a rule can be shown and changed without others.
func parseWritten(text []byte) (root *yaml.Node, err error) {
	tree, err := parseTree(text)
	if tree == nil || err != nil {
		return nil, err
	}
	d, size := &decoder{}, 0
	var written func(n *yaml.Node, depth int) *yaml.Node
	written = func(n *yaml.Node, depth int) *yaml.Node {
		n = d.resolve(n)
		size += len(n.Value) + len(n.HeadComment) + len(n.LineComment) + len(n.FootComment)
		if size > MaxText || depth > maxDepth {
			d.fail(n, "the aliases stand for too much to be written out")
			panic(errGiveUp)
		}
		own := *n
		own.Anchor, own.Content = "", make([]*yaml.Node, len(n.Content))
		for i, c := range n.Content {
			own.Content[i] = written(c, depth+1)
		}
		return &own
	}
	err = d.guard(func() { root = written(tree, 0) })
	return root, err
}

// nodeOf returns the value of a field of a mapping, or nil.
func nodeOf(n *yaml.Node, field string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == field {
			return n.Content[i+1]
		}
	}
	return nil
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func encode(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, fmt.Errorf("writing the rules: %w", err)
	}
	return out.Bytes(), nil
}
