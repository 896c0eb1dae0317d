package rulebook

import (
	"bytes"
	"encoding/binary"
	"math"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/handler"
	"limitdb/server/limits"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// A check that is held takes its costs now, and is settled later under its id, which is one of its namespace. What it holds is listed under
// a key of its own, so the rules may change meanwhile: see engine.SettleList.

// heldArgs describes the options of a check that holds, or settles.
func heldArgs() spec.Argument {
	text := func(token string) spec.Argument {
		return spec.Argument{Name: "id", Kind: "string", Token: token}
	}
	over := spec.Argument{Name: "onexpire", Kind: "oneof", Token: "ONEXPIRE", Optional: true, Args: []spec.Argument{spec.Word("KEEP"), spec.Word("RETURN")}}
	return spec.Argument{Name: "hold", Kind: "oneof", Optional: true, Args: []spec.Argument{
		{Name: "hold", Kind: "block", Args: []spec.Argument{{Name: "ttl", Kind: "string", Token: "HOLD"}, text("ID"), over}},
		text("COMMIT"), text("CANCEL"),
	}}
}

// listPrefix is what the keys of lists begin with. A caller of a rule has a letter behind rules.Prefix.
const listPrefix = rules.Prefix + "!"

// listKey returns the key of the list of a hold. tag is the hash tag of the check, so that the list is in the slot of the callers.
func listKey(tag, namespace, id []byte) []byte {
	b := binary.AppendUvarint(append([]byte(listPrefix), tag...), uint64(len(namespace))) // which is less than a brace
	return append(append(b, namespace...), id...)
}

// list names the list of a check that holds, with what a commit must know of each charge.
func (k *check) list(namespace []byte) {
	if k.held.TTL == 0 {
		return
	}
	k.held.List = listKey(k.Tag(), namespace, k.held.ID)
	for i := range k.Charges {
		r := k.Charges[i].Rule
		k.held.Notes = append(k.held.Notes, appendNote(nil, r.Name, k.CostField(r), k.Weight(r)))
	}
}

// appendNote appends what a commit must know of a charge: its rule, the field with its cost, "" without one, and what a unit of it counts. The
// names have no NUL byte, which ends them.
func appendNote(b []byte, rule, field string, weight int64) []byte {
	b = append(append(b, rule...), 0)
	b = append(append(b, field...), 0)
	return binary.AppendUvarint(b, uint64(weight))
}

// readNote reads what appendNote has written.
func readNote(note []byte) (rule, field []byte, weight int64) {
	rule, note, _ = bytes.Cut(note, []byte{0})
	field, note, _ = bytes.Cut(note, []byte{0})
	n, _ := binary.Uvarint(note)
	return rule, field, int64(n)
}

// settle is a parsed RL.CHECK with COMMIT or CANCEL.
type settle struct {
	list, id         []byte
	cancels, explain bool
	cost             int64    // less than 0: the estimate
	fields           [][]byte // names and values
	keys             [][]byte // to declare: the list, and what it had when it was looked up
}

// settleWords reports whether words, which follow the command's name, are those of a check that settles, and returns its options.
func settleWords(words [][]byte) (options [][]byte, ok bool) {
	n, isInt := resp.ParseInt(words[1])
	if !isInt || n < 0 || n > rules.MaxFields || 2*n >= int64(len(words)-2) {
		return nil, false
	}
	options = words[2+2*n:]
	for i := 0; i < len(options); i++ {
		switch w := options[i]; {
		case resp.EqualFold(w, "COMMIT"), resp.EqualFold(w, "CANCEL"):
			return options, true
		case !resp.EqualFold(w, "PEEK") && !resp.EqualFold(w, "REFUND") && !resp.EqualFold(w, "EXPLAIN"):
			i++ // its value
		}
	}
	return nil, false
}

// prepareSettle parses a check that settles, and looks up its keys, to declare them.
func prepareSettle(b *Book, c *call, options [][]byte) (handler.Prepared, string) {
	s := &settle{cost: -1, fields: c.Args[3 : len(c.Args)-len(options)]}
	if text := s.parse(options); text != "" {
		return nil, text
	}
	tag, text := tagOf(b, c.Args[1], s.fields)
	if text != "" {
		return nil, text
	}
	s.list = listKey(tag, c.Args[1], s.id)
	s.keys = append(s.keys, s.list)
	if c.Step != nil { // of a script: it finds the keys in its own step, and a second one would wait for the first for ever
		return s, ""
	}
	_ = c.States().UpdateAt(0, c.Now, s.keys, func(t *engine.Txn) error { // an error comes once more in the step
		keys, err := engine.ListedKeys(t, s.list)
		s.keys = s.keys[:1]
		for _, key := range keys {
			s.keys = append(s.keys, bytes.Clone(key))
		}
		return err
	})
	return s, ""
}

// tagOf returns the hash tag of a check with these fields, names and values, under the rules in force, or the text of an error.
func tagOf(b *Book, namespace []byte, fields [][]byte) (tag []byte, text string) {
	ns := b.Set().Namespace(namespace)
	if ns == nil || ns.ShardBy() == "" {
		return nil, ""
	}
	k := b.check()
	defer k.Free()
	k.Begin(ns)
	for ; len(fields) > 1; fields = fields[2:] {
		if string(fields[0]) == ns.ShardBy() {
			_ = k.Add(fields[0], fields[1]) // one that is too long, or twice, was refused when it was held
		}
	}
	return bytes.Clone(k.Tag()), lacksTag(ns, &k.Query)
}

// lacksTag returns the text of the error for a check that holds or settles without the field of shard_by, by which the hold is found.
func lacksTag(ns *rules.Namespace, q *rules.Query) string {
	if ns.ShardBy() == "" || len(q.Tag()) > 0 {
		return ""
	}
	return "ERR the namespace has shard_by " + ns.ShardBy() + ": HOLD, COMMIT and CANCEL need that field"
}

// parse parses the options.
func (s *settle) parse(options [][]byte) (text string) {
	a := request.Args{Cost: -1}
	for len(options) > 0 {
		n, text := a.Option(options, request.OwnCost)
		switch word := options[0]; {
		case text != "":
			return text
		case n > 0:
		case resp.EqualFold(word, "EXPLAIN") && !s.explain:
			s.explain, n = true, 1
		case !resp.EqualFold(word, "COMMIT") && !resp.EqualFold(word, "CANCEL"):
			return "ERR syntax error: " + resp.Quote(word) + " does not go with COMMIT or CANCEL"
		case s.id != nil:
			return "ERR syntax error: COMMIT or CANCEL is given twice"
		case len(options) < 2:
			return "ERR syntax error: a value is missing after " + resp.Quote(word)
		default:
			if text = request.CheckHoldID(options[1]); text != "" {
				return text
			}
			s.cancels, s.id, n = resp.EqualFold(word, "CANCEL"), options[1], 2
		}
		options = options[n:]
	}
	if s.cancels && a.Given != 0 {
		return "ERR syntax error: COST is for COMMIT"
	}
	s.cost = a.Cost
	return ""
}

// Keys implements handler.Prepared.
func (s *settle) Keys() [][]byte { return s.keys }

// Keep implements handler.Prepared.
func (s *settle) Keep() handler.Prepared {
	own := *s
	own.id, own.fields = bytes.Clone(s.id), make([][]byte, len(s.fields))
	for i, word := range s.fields {
		own.fields[i] = bytes.Clone(word)
	}
	return &own
}

// Free implements handler.Prepared.
func (s *settle) Free() {}

// Waits implements handler.Prepared: it does not ask.
func (s *settle) Waits() int64 { return -1 }

// costOf returns what a rule has cost, by its note: what its field says or, if the request has none, COST, each times its weight.
func (s *settle) costOf(note []byte) (int64, error) {
	_, field, weight := readNote(note)
	cost, name, given := s.cost, "COST", false
	for i := 0; len(field) > 0 && i+1 < len(s.fields); i += 2 {
		if bytes.Equal(s.fields[i], field) {
			n, ok := resp.ParseInt(s.fields[i+1])
			switch {
			case given:
				return 0, &rules.FieldError{Field: resp.Quote(field), Err: rules.ErrFieldTwice}
			case !ok || n < 0:
				return 0, &rules.FieldError{Field: resp.Quote(field), Err: rules.ErrFieldCost}
			}
			cost, name, given = n, string(field), true
		}
	}
	if cost > 0 && weight > 0 && cost > math.MaxInt64/weight {
		return 0, &rules.FieldError{Field: resp.Quote([]byte(name)), Err: rules.ErrFieldWeight}
	}
	if cost > 0 {
		cost *= weight
	}
	return cost, nil
}

// do settles the hold in a step, and replies.
func (s *settle) do(c *call, t *txn) {
	var all []engine.Listed
	var err error
	c.Quorum = true
	if s.cancels {
		all, err = engine.GiveUpList(t.Txn, s.list, s.id)
	} else {
		all, err = engine.SettleList(t.Txn, s.list, s.id, s.costOf)
	}
	if err != nil {
		if t.Note(err) != nil {
			c.Fail(errorText(err, nil))
		}
		return
	}
	c.Worked(int64(2 * len(all)))
	none := engine.Listed{}
	none.Decision.Limit, none.Decision.Remaining = -1, -1
	at := &none
	for i := range all {
		if c.Decisions != nil {
			rule, _, _ := readNote(all[i].Note)
			limits.NoteSettled(c, all[i].Key, s.id, s.cancels, string(c.Args[1])+"/"+string(rule), &all[i].Settlement)
		}
		if k := &all[i]; i == 0 || k.Over > at.Over || k.Over == at.Over && k.Decision.Remaining < at.Decision.Remaining {
			at = k
		}
	}
	c.Array(map[bool]int{false: 6, true: 7}[s.explain])
	sixSettled(c, at)
	if s.explain {
		c.Array(len(all))
		for i := range all {
			c.Array(6)
			sixSettled(c, &all[i])
		}
	}
}

// sixSettled replies with how the hold of a rule was settled, and the rule's name.
func sixSettled(c *call, k *engine.Listed) {
	limits.FiveSettled(c, &k.Settlement)
	rule, _, _ := readNote(k.Note)
	c.Bulk(rule)
}
