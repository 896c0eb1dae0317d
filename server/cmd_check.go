package server

import (
	"strconv"
	"strings"

	"limitdb/resp"
	"limitdb/rules"
)

// checkCommands are the commands that decide under rules.
func checkCommands() []command {
	token := func(name string) argument {
		return argument{name: strings.ToLower(name), kind: "pure-token", token: name, optional: true}
	}
	return []command{{
		name: "RL.CHECK", example: "RL.CHECK shop 2 user u17 path /cart", arity: -3, flags: flagWrite | flagFast,
		group: "rules", since: "1.0.0", complexity: "O(n log n) for n rules that match",
		summary: "Takes from the limits of all rules that match, or from none.",
		args: []argument{
			{name: "namespace", kind: "string"},
			{name: "numfields", kind: "integer"},
			{name: "data", kind: "block", optional: true, multiple: true, args: []argument{{name: "field", kind: "string"}, {name: "value", kind: "string"}}},
			costWord(), token("PEEK"), token("REFUND"), token("EXPLAIN"),
		},
		run: (*call).rlCheck, atomic: (*call).rlCheckIn, resolves: true,
	}}
}

func (c *call) rlCheck() {
	k := c.srv.checking()
	defer c.srv.doneChecking(k)
	if text := k.parse(c.srv, c.args[1:]); text != "" {
		c.fail(text)
		return
	}
	if err := k.decide(c.srv, c.lane(), c.now); err != nil {
		c.fail(checkError(err, c.args[1]))
		return
	}
	c.checked(k)
}

// checked replies with the decision on a check.
func (c *call) checked(k *checking) {
	d, rule := k.answer()
	c.array(map[bool]int{false: 6, true: 7}[k.explain])
	c.fiveMillis(&d)
	c.text(rule)
	if k.explain {
		c.explain(k)
	}
}

// lane returns the number of the client's counters.
func (c *call) lane() int {
	if c.client == nil {
		return 0
	}
	return c.client.lane
}

// parse parses the words after the command's name: a namespace, fields and options.
func (k *checking) parse(srv *Server, words [][]byte) (text string) {
	if err := k.begin(srv, words[0]); err != nil {
		return checkError(err, words[0])
	}
	n, ok := resp.ParseInt(words[1])
	switch {
	case !ok || n < 0 || n > rules.MaxFields:
		return "ERR numfields must be an integer from 0 to " + strconv.Itoa(rules.MaxFields) + ": " + quoted(words[1])
	case 2*n > int64(len(words)-2):
		return "ERR numfields is " + strconv.Itoa(int(n)) + ", but " + strconv.Itoa(len(words)-2) + " words follow; each field has a name and a value"
	}
	words = words[2:]
	for ; n > 0; n-- {
		if err := k.Add(words[0], words[1]); err != nil {
			return checkError(err, nil)
		}
		words = words[2:]
	}
	return k.options(words)
}

// options parses the options of a check.
func (k *checking) options(words [][]byte) (text string) {
	costly := false
	for len(words) > 0 {
		switch word := words[0]; {
		case foldEqual(word, "COST") && !costly:
			if len(words) < 2 {
				return "ERR syntax error: COST without its value"
			}
			var a limitArgs
			if text := a.setCost(words[1]); text != "" {
				return text
			}
			k.cost, costly = a.cost, true
			words = words[1:]
		case foldEqual(word, "PEEK") && k.how == checkTakes:
			k.how = checkPeeks
		case foldEqual(word, "REFUND") && k.how == checkTakes:
			k.how = checkRefunds
		case foldEqual(word, "EXPLAIN") && !k.explain:
			k.explain = true
		case foldEqual(word, "PEEK"), foldEqual(word, "REFUND"), foldEqual(word, "EXPLAIN"), foldEqual(word, "COST"):
			return "ERR syntax error: " + quoted(word) + " is given twice, or with what excludes it"
		default:
			return "ERR unknown option " + quoted(word) + " for RL.CHECK: is numfields right?"
		}
		words = words[1:]
	}
	return ""
}

// explain replies with the answer of every rule that matched.
func (c *call) explain(k *checking) {
	c.array(len(k.Charges))
	for i := range k.Charges {
		charge := &k.Charges[i]
		c.array(5)
		c.text(charge.Rule.Name)
		c.text(roleNames[charge.Role])
		c.text(charge.Limit.String())
		c.int(charge.Cost)
		c.decisionMillis(&k.ds[i])
	}
}

var roleNames = [...]string{rules.Enforced: "enforce", rules.Shadowed: "shadow", rules.Candidate: "candidate"}
