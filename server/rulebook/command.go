package rulebook

import (
	"fmt"
	"strconv"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/handler"
	"limitdb/server/limits"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// Rows returns the commands of the package, in the order of the reference.
func (b *Book) Rows() []row {
	check := handler.Rows[call]("rules", "O(n log n) for n rules that match", spec.Write|spec.Fast|spec.Blocking|spec.Wide|spec.Decides|spec.Across)(
		"RL.CHECK", -3, 0, "Takes from the limits of all rules that match, or from none; with WAIT, waits until all grant.", nil,
		spec.Text("namespace"), spec.Integer("numfields"),
		fieldArgs(),
		request.CostWord(), request.WaitWord(), heldArgs(), spec.Optional(spec.Word("PEEK")), spec.Optional(spec.Word("REFUND")),
		spec.Argument{Name: "lease", Kind: "string", Token: "RELEASE", Optional: true}, spec.Optional(spec.Word("EXPLAIN")),
		request.OnceWords())
	check.Route = 1 // redis-py's client of clusters has no way to dispatch a command without any
	check.Example, check.Prepare, check.Do = "RL.CHECK shop 2 user u17 path /cart", func(c *call) (handler.Prepared, string) { return prepareCheck(b, c) }, decide
	return []row{check, envoyRow(b), rulesRow(b)}
}

// timed makes c count in the times of the namespace.
func (k *check) timed(c *call) {
	if k.ns.Index < len(k.force.tallies) {
		c.Latency = k.force.tallies[k.ns.Index].took
	}
}

// reply replies with the decision.
func (k *check) reply(c *call) {
	if k.how == releases {
		c.Int(k.released)
		return
	}
	d, rule := k.answer()
	n := 6
	if k.explain {
		n++
	}
	if k.leases.some {
		n++
	}
	c.Array(n)
	limits.FiveMillis(c, &d)
	c.Text(rule)
	if k.explain {
		k.explanation(c)
	}
	if k.leases.some {
		c.Text(k.leaseID())
	}
}

// parse parses the words after the command's name: a namespace, fields and options.
func (k *check) parse(b *Book, words [][]byte) (text string) {
	if words, text = k.fields(b, words); text != "" {
		return text
	}
	if text = k.options(words); text == "" {
		text = k.held.CheckIn(k.cost, int64(b.Parts.Settings.HoldMaxTTL.Get()))
	}
	return text
}

// fields parses a namespace and fields, and returns the words that follow.
func (k *check) fields(b *Book, words [][]byte) (rest [][]byte, text string) {
	if err := k.begin(b, words[0]); err != nil {
		return nil, errorText(err, words[0])
	}
	n, ok := resp.ParseInt(words[1])
	switch {
	case !ok || n < 0 || n > rules.MaxFields:
		return nil, "ERR numfields must be an integer from 0 to " + strconv.Itoa(rules.MaxFields) + ": " + resp.Quote(words[1])
	case 2*n > int64(len(words)-2):
		return nil, fmt.Sprintf("ERR numfields is %d: %d words must follow, a name and a value for each field, not %d", n, 2*n, len(words)-2)
	}
	words, k.numFields = words[2:], int(n)
	k.counted.fields = words[:2*n]
	for ; n > 0; n-- {
		if err := k.Add(words[0], words[1]); err != nil {
			return nil, errorText(err, nil)
		}
		words = words[2:]
	}
	return words, ""
}

// options parses the options of a check.
func (k *check) options(words [][]byte) (text string) {
	a := request.Args{Cost: 1, MaxWait: -1}
	for len(words) > 0 {
		n, text := a.Option(words, request.OwnCost|request.OwnWait|request.OwnOnce)
		if n == 0 && text == "" {
			n, text = k.held.Of(words)
		}
		switch word := words[0]; {
		case text != "":
			return text
		case n > 0:
		case resp.EqualFold(word, "PEEK") && k.how == takes:
			k.how, n = peeks, 1
		case resp.EqualFold(word, "REFUND") && k.how == takes:
			k.how, n = refunds, 1
		case resp.EqualFold(word, "RELEASE") && k.how == takes:
			if n, text = k.setRelease(words); text != "" {
				return text
			}
		case resp.EqualFold(word, "EXPLAIN") && !k.explain:
			k.explain, n = true, 1
		case resp.EqualFold(word, "PEEK"), resp.EqualFold(word, "REFUND"), resp.EqualFold(word, "RELEASE"), resp.EqualFold(word, "EXPLAIN"):
			return "ERR syntax error: " + resp.Quote(word) + " is given twice, or with what excludes it"
		default:
			return "ERR unknown option " + resp.Quote(word) + " for RL.CHECK: is numfields right?"
		}
		words = words[n:]
	}
	if k.cost, k.wait = a.Cost, a.MaxWait; k.wait >= 0 && k.how != takes {
		return "ERR syntax error: WAIT is for a check that takes"
	}
	if k.held.TTL > 0 && (k.how != takes || a.Given&request.OwnOnce != 0) {
		return "ERR syntax error: HOLD is for a check that takes, and its ID does what ONCE does"
	}
	if k.how == releases && k.explain {
		return "ERR syntax error: EXPLAIN is for a check that decides"
	}
	return k.counted.of(&a, k)
}

// explanation replies with the answer of every rule that matched.
func (k *check) explanation(c *call) {
	c.Array(len(k.Charges))
	for i := range k.Charges {
		charge := &k.Charges[i]
		c.Array(5)
		c.Text(charge.Rule.Name)
		c.Text(roleNames[charge.Role])
		c.Text(charge.Spelling())
		c.Int(charge.Cost)
		limits.Millis(c, &k.ds[i])
	}
}

var roleNames = [...]string{rules.Enforced: "enforce", rules.Shadowed: "shadow", rules.Candidate: "candidate"}
