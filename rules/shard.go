package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"slices"
)

// A namespace may have shard_by, the field by which its keys are divided among the groups of a cluster. In the keys of the rules
// that have the field, its value is in braces: the hash tag, by which the slot of a key is computed. So all that these rules know
// of a caller is in one slot, whatever the other fields are, and a check of it is one step in one group.
//
// All other braces are escaped in keys, and in the tag, so the tag is always the whole value. An empty one is written {%}, since
// {} would be no tag; no other value is written so. One that is longer than maxTag is replaced by # and a hash, as in other keys.

const (
	// maxTag is the most bytes of a tag between its braces. A key with the longest stem, such a tag and a hash still has no more than MaxKey.
	maxTag = 64
	// emptyTag stands for an empty value in a tag.
	emptyTag = "%"
)

// ShardBy returns the name of the field by which the keys of the namespace are divided, "" if there is none.
func (n *Namespace) ShardBy() string { return n.shardBy }

// ShardBy returns the name of the field by which the keys of the rule are divided: that of the namespace, or "" if the rule's key has not
// got it.
func (r *Rule) ShardBy() string {
	if r.shard < 0 {
		return ""
	}
	return r.fields[r.shard]
}

// shard decides which field of a rule's key divides the keys. Only if all rules cut it to the same network, it is the same for all of them.
func (c *compiler) shard(doc *ruleDoc, r *Rule) {
	ns := c.ns
	if r.shard = -1; ns.shard >= 0 {
		r.shard = slices.Index(r.key, ns.shard)
	}
	if r.shard < 0 || doc.bad {
		return
	}
	v4, v6 := 0, 0
	if r.address == r.shard {
		v4, v6 = r.v4, r.v6
	}
	if i := slices.IndexFunc(ns.rules, func(other *Rule) bool { return other.shard >= 0 && other != r }); i < 0 {
		ns.v4, ns.v6 = v4, v6
	} else if v4 != ns.v4 || v6 != ns.v6 {
		c.fail(doc.at, "this rule must cut %s to the same networks as rule %s, since shard_by names it", quote(ns.shardBy), quote(ns.rules[i].Name))
	}
}

// noteShard notes a shard_by that divides nothing.
func (c *compiler) noteShard(doc *namespaceDoc) {
	if doc.shardBy.given() && !slices.ContainsFunc(c.ns.rules, func(r *Rule) bool { return r.shard >= 0 }) {
		c.note(doc.shardBy.at, "shard_by has no effect: no rule of the namespace has %s in its key", doc.shardBy.text)
	}
}

// Tag returns the hash tag of the check with its braces, which the keys of all rules have whose key has the field of shard_by. It is empty without
// shard_by, and if the check has not got the field. It is valid until the next Begin.
func (q *Query) Tag() []byte {
	n := q.ns
	if len(q.tag) > 0 || n.shard < 0 || q.values[n.shard] == nil {
		return q.tag
	}
	b := append(q.tag, '{')
	if v := q.values[n.shard]; n.v6 > 0 {
		b = appendNetwork(b, v, n.v4, n.v6)
	} else {
		b = appendEscaped(b, v)
	}
	switch {
	case len(b) == 1:
		b = append(b, emptyTag...)
	case len(b) > 1+maxTag:
		h := sha256.New()
		h.Write(q.Secret)
		h.Write(b)
		var sum [sha256.Size]byte
		b = base64.RawURLEncoding.AppendEncode(append(b[:1], '#'), h.Sum(sum[:0])[:hashBits/8])
	}
	q.tag = append(b, '}')
	return q.tag
}

// TagOf returns what the hash tag of a caller's key has between its braces, "" if it has none. It begins with # if it is a hash.
func TagOf(key []byte) string {
	_, tag, _ := bytes.Cut(key, []byte("{"))
	tag, _, _ = bytes.Cut(tag, []byte("}"))
	return string(tag)
}
