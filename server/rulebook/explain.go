package rulebook

import (
	"strconv"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/handler"
	"limitdb/server/limits"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// explainRow is RL.RULES EXPLAIN, which says what every rule says to a request and changes nothing.
func explainRow(b *Book) row {
	r := handler.Rows[call]("rules", "O(n) for n rules", spec.Readonly|spec.Works)("EXPLAIN", -4, 0,
		"Says of each rule of a namespace whether it applies to a request and what it would answer, or why not.", b.runs(explain),
		spec.Text("namespace"), spec.Integer("numfields"), fieldArgs(), request.CostWord(),
		spec.Argument{Name: "count", Kind: "integer", Token: "COUNT", Optional: true})
	r.Example = "RL.RULES EXPLAIN shop 2 user u17 path /cart"
	return r
}

// fieldArgs describes the fields of a request.
func fieldArgs() spec.Argument {
	return spec.Argument{Name: "data", Kind: "block", Optional: true, Multiple: true, Args: []spec.Argument{spec.Text("field"), spec.Text("value")}}
}

const (
	explainCount = 100
	explainMost  = 10_000
	explainStep  = 16  // rules in a step
	shownValue   = 128 // bytes of a value that a rule does not match
)

func explain(b *Book, c *call) {
	k, n, text := parseExplain(b, c.Args[2:])
	if text != "" {
		c.Fail(text)
		return
	}
	ignored := k.ignored(c.Args[4:])
	k.look(c, func(text string) {
		if text != "" {
			c.Fail(text)
			return
		}
		shows(k, c, n, ignored)
	})
}

// shows replies with what the first n rules say to a check. ignored are the fields that no rule looks at.
func shows(k *check, c *call, n int, ignored []string) {
	x := k.Explain()
	list := x.Rules(n)
	d, rule := k.answer()
	c.Map(6)
	c.Text("decision")
	limits.Millis(c, &d)
	c.Text("rule")
	c.Text(rule)
	c.Text("ignored")
	c.Texts(ignored)
	c.Text("rules")
	c.Int(int64(len(k.ns.Rules())))
	c.Text("matched")
	c.Int(int64(x.Matched()))
	c.Text("explained")
	c.Array(len(list))
	c.EachStep(len(list), explainStep, func(int) { k.Query.Keep() }, func(i int) {
		v := x.Of(list[i])
		k.verdict(c, &v)
	}, nil)
}

// parseExplain parses the words after RL.RULES EXPLAIN, into a check of its own, which may last for several turns.
func parseExplain(b *Book, words [][]byte) (k *check, n int, text string) {
	k, n = &check{book: b}, explainCount
	k.Secret = b.secret.bytes()
	words, text = k.fields(b, words)
	if text == "" {
		text = b.secret.missing()
	}
	if text != "" {
		return nil, 0, text
	}
	text = request.Options(words, "RL.RULES EXPLAIN", func(name string, value []byte) (text string) {
		if name == "COST" {
			a := request.Args{}
			text, k.cost = a.SetCost(value), a.Cost
			return text
		}
		count, ok := resp.ParseInt(value)
		if !ok || count < 1 || count > explainMost {
			return "ERR COUNT must be an integer from 1 to " + strconv.Itoa(explainMost) + ": " + resp.Quote(value)
		}
		n = int(count)
		return ""
	}, "COST", "COUNT")
	return k, n, text
}

// look decides the check and changes nothing. Then it calls then, with the text of the error or "", perhaps in a later turn.
func (k *check) look(c *call, then func(text string)) {
	if err := k.Match(k.cost); err != nil {
		then(errorText(err, nil))
		return
	}
	k.how = peeks
	k.charge()
	switch {
	case len(k.Charges) == 0:
		then("")
		return
	case c.Look != nil:
		k.Query.Keep()
		c.Look(c, &k.all, then)
		return
	}
	text := ""
	if err := c.States().UpdateAt(0, c.Now, k.Keys(), func(t *engine.Txn) error {
		_, err := t.Together(&k.all)
		return err
	}); err != nil {
		text = errorText(err, nil)
	}
	then(text)
}

// ignored returns the names of the fields that no rule looks at. words are the fields, and what follows them.
func (k *check) ignored(words [][]byte) (names []string) {
	for range k.numFields {
		if !k.ns.Knows(words[0]) {
			names = append(names, resp.Excerpt(words[0]))
		}
		words = words[2:]
	}
	return names
}

// verdict replies with what a rule says.
func (k *check) verdict(c *call, v *rules.Verdict) {
	has := v.Has[:min(len(v.Has), shownValue)]
	c.Fields("name", v.Rule.Name, "mode", v.Rule.Mode.String(), "applies", func() { c.Bit(v.Why == "") },
		"why", v.Why, "field", v.Field, "has", func() { c.Bulk(has) }, "wants", v.Wants, "from", v.From, "limits", func() {
			c.Array(len(v.Charges))
			for _, i := range v.Charges {
				k.chargeReply(c, i)
			}
		})
}

// chargeReply replies with the limit of a charge, and what it would answer.
func (k *check) chargeReply(c *call, i int) {
	charge := &k.Charges[i]
	c.Fields("role", roleNames[charge.Role], "limit", charge.Spelling(), "cost", charge.Cost,
		"key", func() { c.Bulk(charge.Key) }, "slot", resp.Slot(charge.Key), "decision", func() { limits.Millis(c, &k.ds[i]) })
}
