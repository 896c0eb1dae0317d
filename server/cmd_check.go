package server

import (
	"strconv"
	"strings"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/limits"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// checkCommands are the commands that decide under rules.
func checkCommands() []command {
	token := func(name string) spec.Argument {
		return spec.Argument{Name: strings.ToLower(name), Kind: "pure-token", Token: name, Optional: true}
	}
	return []command{{
		Command: spec.Command{
			Name: "RL.CHECK", Example: "RL.CHECK shop 2 user u17 path /cart", Arity: -3, Flags: spec.Write | spec.Fast | spec.Blocking,
			Group: "rules", Complexity: "O(n log n) for n rules that match",
			Summary: "Takes from the limits of all rules that match, or from none; with WAIT, waits for them.",
			Args: []spec.Argument{
				{Name: "namespace", Kind: "string"},
				{Name: "numfields", Kind: "integer"},
				{Name: "data", Kind: "block", Optional: true, Multiple: true, Args: []spec.Argument{{Name: "field", Kind: "string"}, {Name: "value", Kind: "string"}}},
				request.CostWord(), request.WaitWord(), token("PEEK"), token("REFUND"), token("EXPLAIN"),
			},
		},
		run: (*call).rlCheck, atomic: (*call).rlCheckIn, resolves: true,
	}}
}

func (c *call) rlCheck() {
	k := c.srv.checking()
	defer c.srv.doneChecking(k)
	if text := k.parse(c.srv, c.Args[1:]); text != "" {
		c.Fail(text)
		return
	}
	if k.wait >= 0 {
		c.askCheck(k, c.Args, nil)
		return
	}
	if err := k.decide(c.srv, c.lane(), c.Now); err != nil {
		c.Fail(checkError(err, c.Args[1]))
		return
	}
	c.checked(k)
}

// checked replies with the decision on a check.
func (c *call) checked(k *checking) {
	d, rule := k.answer()
	c.Array(map[bool]int{false: 6, true: 7}[k.explain])
	limits.FiveMillis(c.inner(), &d)
	c.Text(rule)
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
		return "ERR numfields must be an integer from 0 to " + strconv.Itoa(rules.MaxFields) + ": " + resp.Quote(words[1])
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
	a := request.Args{Cost: 1, MaxWait: -1}
	for len(words) > 0 {
		n, text := a.Option(words, request.OwnCost|request.OwnWait)
		switch word := words[0]; {
		case text != "":
			return text
		case n > 0:
		case resp.EqualFold(word, "PEEK") && k.how == checkTakes:
			k.how, n = checkPeeks, 1
		case resp.EqualFold(word, "REFUND") && k.how == checkTakes:
			k.how, n = checkRefunds, 1
		case resp.EqualFold(word, "EXPLAIN") && !k.explain:
			k.explain, n = true, 1
		case resp.EqualFold(word, "PEEK"), resp.EqualFold(word, "REFUND"), resp.EqualFold(word, "EXPLAIN"):
			return "ERR syntax error: " + resp.Quote(word) + " is given twice, or with what excludes it"
		default:
			return "ERR unknown option " + resp.Quote(word) + " for RL.CHECK: is numfields right?"
		}
		words = words[n:]
	}
	if k.cost, k.wait = a.Cost, a.MaxWait; k.wait >= 0 && k.how != checkTakes {
		return "ERR syntax error: WAIT is for a check that takes"
	}
	return ""
}

// explain replies with the answer of every rule that matched.
func (c *call) explain(k *checking) {
	c.Array(len(k.Charges))
	for i := range k.Charges {
		charge := &k.Charges[i]
		c.Array(5)
		c.Text(charge.Rule.Name)
		c.Text(roleNames[charge.Role])
		c.Text(charge.Limit.String())
		c.Int(charge.Cost)
		limits.Millis(c.inner(), &k.ds[i])
	}
}

var roleNames = [...]string{rules.Enforced: "enforce", rules.Shadowed: "shadow", rules.Candidate: "candidate"}
