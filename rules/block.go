package rules

import (
	"go.yaml.in/yaml/v3"

	"limitdb/limit"
)

// With block, a denial under a rule's limit shuts the caller out for a while:
//
//	block: 15m
//	block: {for: 15m, up_to: 24h}
//
// It means the same as BLOCK 15m, or BLOCK 15m UPTO 24h, in the limit.

// schemaBlock is the JSON Schema of the field.
const schemaBlock = `{"oneOf": [{"type": "string", "examples": ["15m"]}, {"$ref": "#/$defs/block"}]}`

// blockDoc is what a file says of blocks.
type blockDoc struct {
	at           *yaml.Node // nil: nothing
	length, upTo spot
}

func blockRows() []row[blockDoc] {
	return []row[blockDoc]{
		{
			"for", true, `{"type": "string", "examples": ["15m"]}`, "How long a block is.",
			func(d *decoder, n *yaml.Node, to *blockDoc) { to.length = d.spot(n, "for") },
		},
		{
			"up_to", false, `{"type": "string", "examples": ["24h"]}`, "Each block soon after another is twice as long as that, up to this.",
			func(d *decoder, n *yaml.Node, to *blockDoc) { to.upTo = d.spot(n, "up_to") },
		},
	}
}

// block reads the field.
func (d *decoder) block(n *yaml.Node) blockDoc {
	b := blockDoc{at: n}
	if n.Kind == yaml.ScalarNode {
		b.length = d.spot(n, "block")
	} else {
		object(d, n, "block", blockRows(), &b)
	}
	return b
}

// block compiles the field. It is for a rule with a limit.
func (c *compiler) block(doc *ruleDoc, r *Rule) {
	b := &doc.block
	switch {
	case b.at == nil:
		return
	case doc.unlimited.given(), doc.inFlight.given() && !doc.limit.given() && !doc.limitFrom.given() && doc.plan.at == nil:
		c.fail(b.at, "block is for a limit, which the rule does not have")
		return
	case !b.length.given():
		return
	}
	words := "BLOCK " + b.length.text
	if !c.blocks(b.length, words) {
		return
	}
	if b.upTo.given() {
		if words += " UPTO " + b.upTo.text; !c.blocks(b.upTo, words) {
			return
		}
	}
	r.block = words
}

// blocks reports whether words, of which a time is the last, are those of a block. If not, it fails.
func (c *compiler) blocks(time spot, words string) bool {
	_, err := limit.ParseTime([]byte(time.text))
	if err == nil {
		_, err = limit.Parse("GCRA 1/s " + words)
	}
	if err != nil {
		c.fail(time.at, "block: %v", err)
	}
	return err == nil
}
