package httpapi

import (
	"context"
	"strconv"
	"strings"

	"limitdb/resp"
)

// Settlement is what a commit has charged to one limit.
type Settlement struct {
	// Charged is how much more was taken than had been; less than 0 for what went back.
	Charged int64 `json:"charged"`
	// Over is how much of Charged is beyond the limit.
	Over int64 `json:"over"`
	// Limit is the most that can be taken at once, and Remaining what is left now. Both are -1 if nothing was held, or the key has another family by now.
	Limit     int64 `json:"limit"`
	Remaining int64 `json:"remaining"`
	// Reset is the time, in ms, until the key is as if it had never been used.
	Reset int64 `json:"reset_ms"`
}

// RuleSettlement is what a commit has charged to the limit of one rule.
type RuleSettlement struct {
	Rule string `json:"rule"`
	Settlement
}

// CommitAnswer is the answer to /v1/commit.
type CommitAnswer struct {
	// Settlement is that of the key or, of a held check, that of Rule: the rule that went over its limit the furthest or, if none did,
	// the one with the least remaining.
	Settlement
	// Rule is nil for a key, and "" if no rule has held anything.
	Rule *string `json:"rule,omitempty"`
	// Rules has what was charged to each rule, if that was asked for.
	Rules []RuleSettlement `json:"rules,omitempty"`
}

// CancelAnswer is the answer to /v1/cancel.
type CancelAnswer struct {
	// Returned is how much has gone back: to the key or, of a held check, to the limit of Rule.
	Returned int64 `json:"returned"`
	// Rule is nil for a key, and "" if no rule has held anything.
	Rule *string `json:"rule,omitempty"`
	// Rules has what has gone back to each rule, as a charge less than 0, if that was asked for.
	Rules []RuleSettlement `json:"rules,omitempty"`
}

// heldRequest is what the bodies of /v1/hold, /v1/commit and /v1/cancel have in common: what is held, for a key or under the rules of a
// namespace, and under which id.
type heldRequest struct {
	checkRequest
	key, id string
	given   bool // the cost
}

// read reads a body with these fields, and those in more.
func (q *heldRequest) read(body []byte, more map[string]field) error {
	all := map[string]field{"key": text(&q.key), "namespace": text(&q.namespace), "id": text(&q.id), "explain": boolean(&q.explain)}
	for name, f := range more {
		all[name] = f
	}
	err := readObject(body, all)
	switch {
	case err != nil:
		return err
	case (q.key == "") == (q.namespace == ""):
		return invalid("name either a key or a namespace")
	case q.key != "" && (q.fields != nil || q.explain):
		return invalid("fields and explain belong to a namespace: leave them out")
	case q.id == "":
		return invalid("id is missing or empty")
	case len(q.fields) > 2*maxFields:
		return invalid("a check has at most %d fields", maxFields)
	}
	return nil
}

// costAndFields are the fields of the body that say what a request costs.
func (q *heldRequest) costAndFields() map[string]field {
	return map[string]field{
		"cost":   func(o *object, name string) (err error) { q.cost, err = o.integer(name); q.given = true; return err },
		"fields": q.readFields,
	}
}

// readFields reads the fields of a namespace.
func (q *heldRequest) readFields(o *object, _ string) (err error) {
	if q.fields, err = o.texts("field"); q.fields == nil {
		q.fields = []string{} // which tells {} from nothing
	}
	return err
}

// hold takes an estimate, and remembers it.
func (a *api) hold(ctx context.Context, body []byte) (any, error) {
	q, limit, onExpire, ttl := heldRequest{checkRequest: checkRequest{cost: 1}}, "", "keep", int64(0)
	more := q.costAndFields()
	more["limit"], more["on_expire"], more["ttl_ms"] = text(&limit), text(&onExpire), integer(&ttl)
	err := q.read(body, more)
	switch {
	case err != nil:
		return nil, err
	case q.key != "" && limit == "":
		return nil, invalid("limit is missing: for example \"FIXED 100000/d\"")
	case q.namespace != "" && limit != "":
		return nil, invalid("the rules of the namespace say what the limits are: leave limit out")
	case ttl == 0:
		return nil, invalid("ttl_ms is missing or 0: for example 60000")
	case onExpire != "keep" && onExpire != "return":
		return nil, invalid("on_expire is keep or return, not %s", clip(onExpire))
	}
	options := []string{"ID", q.id, "ONEXPIRE", onExpire}
	if q.namespace != "" {
		words := append(q.words(), "HOLD", strconv.FormatInt(ttl, 10))
		return a.askRules(ctx, append(words, options...), q.explain)
	}
	// As in take, no option may hide in the limit.
	if _, err := a.parser().Parse(limit); err != nil {
		return nil, invalid("limit: %s", err)
	}
	options = append([]string{"TTL", strconv.FormatInt(ttl, 10)}, options...)
	v, err := a.run(ctx, command("RL.HOLD", q.key, strings.Fields(limit), q.cost, options...)...)
	if err != nil {
		return nil, err
	}
	return decisionOf(v)
}

// commit settles a hold at its actual cost.
func (a *api) commit(ctx context.Context, body []byte) (any, error) {
	var q heldRequest
	if err := q.read(body, q.costAndFields()); err != nil {
		return nil, err
	}
	words := []string{"RL.COMMIT", q.key, "ID", q.id}
	if q.namespace != "" {
		words = q.settleWords("COMMIT")
	}
	if q.given {
		words = append(words, "COST", strconv.FormatInt(q.cost, 10))
	}
	return a.settle(ctx, words, &q)
}

// cancel gives a hold back.
func (a *api) cancel(ctx context.Context, body []byte) (any, error) {
	var q heldRequest
	if err := q.read(body, map[string]field{"fields": q.readFields}); err != nil { // with shard_by, the hold is found by one
		return nil, err
	}
	if q.namespace == "" {
		v, err := a.run(ctx, argsOf([]string{"RL.CANCEL", q.key, "ID", q.id})...)
		if err != nil {
			return nil, err
		}
		return CancelAnswer{Returned: v.Int}, nil
	}
	answer, err := a.settle(ctx, q.settleWords("CANCEL"), &q)
	if err != nil {
		return nil, err
	}
	return CancelAnswer{Returned: max(0, -answer.Charged), Rule: answer.Rule, Rules: answer.Rules}, nil
}

// settleWords returns the command that settles a held check, without its cost.
func (q *heldRequest) settleWords(how string) []string {
	words := append([]string{"RL.CHECK", q.namespace, strconv.Itoa(len(q.fields) / 2)}, q.fields...)
	return append(words, how, q.id)
}

// settle runs a command that settles a hold.
func (a *api) settle(ctx context.Context, words []string, q *heldRequest) (answer CommitAnswer, err error) {
	if q.explain {
		words = append(words, "EXPLAIN")
	}
	v, err := a.run(ctx, argsOf(words)...)
	if err != nil {
		return answer, err
	}
	if answer.Settlement, err = settlementOf(v); err != nil || q.namespace == "" || len(v.Elems) < 6 {
		return answer, err
	}
	answer.Rule = &v.Elems[5].Text
	if len(v.Elems) < 7 {
		return answer, nil
	}
	for _, part := range v.Elems[6].Elems {
		s, err := settlementOf(part)
		if err != nil || len(part.Elems) < 6 {
			return answer, invalid("this is no settlement")
		}
		answer.Rules = append(answer.Rules, RuleSettlement{Rule: part.Elems[5].Text, Settlement: s})
	}
	return answer, nil
}

// settlementOf returns the settlement in the first five integers of a reply.
func settlementOf(v resp.Value) (Settlement, error) {
	if len(v.Elems) < 5 {
		return Settlement{}, invalid("this is no settlement")
	}
	e := v.Elems
	return Settlement{Charged: e[0].Int, Over: e[1].Int, Limit: e[2].Int, Remaining: e[3].Int, Reset: e[4].Int}, nil
}
