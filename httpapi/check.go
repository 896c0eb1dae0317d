package httpapi

import (
	"context"
	"strconv"

	"limitdb/limit"
	"limitdb/resp"
)

// CheckAnswer is the answer to /v1/check.
type CheckAnswer struct {
	// Decision is the decision of the rule that decides. Its Limit and Remaining are -1 if no rule limits the
	// caller.
	Decision
	// Rule is the name of the rule that decides, "" if no rule matches.
	Rule string `json:"rule"`
	// Lease is the id that gives back what the request has in flight, "" if it has nothing.
	Lease string `json:"lease,omitempty"`
	// Rules has the decisions of all rules that match, if they were asked for.
	Rules []RuleDecision `json:"rules,omitempty"`
}

// RuleDecision is what one rule says.
type RuleDecision struct {
	Rule string `json:"rule"`
	// Mode is enforce, shadow or candidate. Only a rule that enforces can deny.
	Mode string `json:"mode"`
	// Spelling is the rule's limit for this caller.
	Spelling string `json:"spelling"`
	Cost     int64  `json:"cost"`
	Decision
}

// checkRequest is the body of /v1/check.
type checkRequest struct {
	namespace     string
	fields        []string // names and values
	cost          int64
	peek, explain bool
}

// maxFields is the most fields of a check, as for RL.CHECK.
const maxFields = 64

func parseCheck(body []byte) (q checkRequest, err error) {
	q.cost = 1
	err = readObject(body, map[string]field{
		"namespace": text(&q.namespace), "cost": integer(&q.cost), "peek": boolean(&q.peek), "explain": boolean(&q.explain),
		"fields": func(o *object, _ string) (err error) { q.fields, err = o.texts("field"); return err },
	})
	return q, q.valid(err)
}

// valid returns the error of reading q, or else what is wrong with q.
func (q *checkRequest) valid(err error) error {
	switch {
	case err != nil:
		return err
	case q.namespace == "":
		return invalid("namespace is missing or empty")
	case len(q.fields) > 2*maxFields:
		return invalid("a check has at most %d fields", maxFields)
	}
	return nil
}

func (a *api) check(ctx context.Context, body []byte) (any, error) {
	q, err := parseCheck(body)
	if err != nil {
		return nil, err
	}
	return a.decideByRules(ctx, &q)
}

// words returns the command for a check, without its options.
func (q *checkRequest) words() []string {
	words := append([]string{"RL.CHECK", q.namespace, strconv.Itoa(len(q.fields) / 2)}, q.fields...)
	return append(words, "COST", strconv.FormatInt(q.cost, 10))
}

// decideByRules asks the server for a decision under its rules.
func (a *api) decideByRules(ctx context.Context, q *checkRequest) (CheckAnswer, error) {
	words := q.words()
	if q.peek {
		words = append(words, "PEEK")
	} else {
		words = append(words, onceWords(ctx)...)
	}
	return a.askRules(ctx, words, q.explain)
}

// askRules runs an RL.CHECK that decides, and returns its answer.
func (a *api) askRules(ctx context.Context, words []string, explain bool) (answer CheckAnswer, err error) {
	if explain {
		words = append(words, "EXPLAIN")
	}
	v, err := a.run(ctx, argsOf(words)...)
	if err != nil {
		return answer, err
	}
	if answer.Decision, err = decisionOf(v); err != nil || len(v.Elems) < 6 {
		return answer, err
	}
	answer.Rule = v.Elems[5].Text
	if n := len(v.Elems); !explain && n == 7 || explain && n == 8 {
		answer.Lease = v.Elems[n-1].Text
	}
	if explain && len(v.Elems) > 6 {
		answer.Rules, err = ruleDecisions(v.Elems[6].Elems)
	}
	return answer, err
}

// ruleDecisions returns what the rules say in a reply with EXPLAIN.
func ruleDecisions(parts []resp.Value) (all []RuleDecision, err error) {
	for _, part := range parts {
		if len(part.Elems) < 5 {
			return nil, invalid("this is no decision")
		}
		e := part.Elems
		r := RuleDecision{Rule: e[0].Text, Mode: e[1].Text, Spelling: e[2].Text, Cost: e[3].Int}
		if r.Decision, err = decisionOf(e[4]); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// policiesOf returns the policies of the rules that enforce, with what is left of each.
func (a *api) policiesOf(answer *CheckAnswer) (all []policy) {
	for i := range answer.Rules {
		r := &answer.Rules[i]
		if r.Mode != "enforce" || len(all) > 0 && all[len(all)-1].Name == r.Rule { // what a rule has in flight comes after its limit
			continue
		}
		p := policy{Name: r.Rule, Quota: r.Limit, Remaining: r.Remaining, Reset: seconds(r.window())}
		if l, err := limitOf(a, r.Spelling); err == nil {
			p.Quota, p.Window = l.Max, seconds(limit.Milliseconds(l.Period))
		}
		all = append(all, p)
	}
	return all
}

func limitOf(a *api, spelling string) (limit.Limit, error) { return a.parser().Parse(spelling) }
