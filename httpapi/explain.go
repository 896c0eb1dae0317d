package httpapi

import (
	"context"
	"strconv"

	"limitdb/resp"
)

// ExplainAnswer is the answer to /v1/explain.
type ExplainAnswer struct {
	// Decision is what /v1/check would answer, and Rule the rule that it comes from.
	Decision
	Rule string `json:"rule"`
	// Ignored are the fields that no rule looks at.
	Ignored []string `json:"ignored"`
	// Rules is how many rules the namespace has, and Matched how many of them apply.
	Rules   int64 `json:"rules"`
	Matched int64 `json:"matched"`
	// Explained has the rules, those that apply first.
	Explained []RuleVerdict `json:"explained"`
}

// RuleVerdict is what one rule says to a request.
type RuleVerdict struct {
	Name    string `json:"name"`
	Mode    string `json:"mode"` // enforce, shadow or off
	Applies bool   `json:"applies"`
	// Why says why it does not apply, Field for which field, Has what the request has there, and Wants what the rule asks for.
	Why   string `json:"why,omitempty"`
	Field string `json:"field,omitempty"`
	Has   string `json:"has,omitempty"`
	Wants string `json:"wants,omitempty"`
	// From is the plan or the override that the limit comes from.
	From   string          `json:"from,omitempty"`
	Limits []ExplainedPart `json:"limits"`
}

// ExplainedPart is a limit that applies, and what it would answer.
type ExplainedPart struct {
	Role     string `json:"role"` // enforce, shadow or candidate
	Spelling string `json:"spelling"`
	Cost     int64  `json:"cost"`
	Key      string `json:"key"`
	Decision
}

// explain answers what every rule says to a request, and changes nothing.
func (a *api) explain(ctx context.Context, body []byte) (any, error) {
	q, count := checkRequest{cost: 1}, int64(100)
	err := readObject(body, map[string]field{
		"namespace": text(&q.namespace), "cost": integer(&q.cost), "count": integer(&count),
		"fields": func(o *object, _ string) (err error) { q.fields, err = o.texts("field"); return err },
	})
	if err = q.valid(err); err != nil {
		return nil, err
	}
	words := append([]string{"RL.RULES", "EXPLAIN", q.namespace, strconv.Itoa(len(q.fields) / 2)}, q.fields...)
	words = append(words, "COST", strconv.FormatInt(q.cost, 10), "COUNT", strconv.FormatInt(count, 10))
	v, err := a.run(ctx, argsOf(words)...)
	if err != nil {
		return nil, err
	}
	return explainAnswer(v)
}

// explainAnswer returns the answer that a reply to RL.RULES EXPLAIN has.
func explainAnswer(v resp.Value) (answer ExplainAnswer, err error) {
	f := named(v)
	if answer.Decision, err = decisionOf(f["decision"]); err != nil {
		return answer, err
	}
	answer.Rule, answer.Rules, answer.Matched = f["rule"].Text, f["rules"].Int, f["matched"].Int
	answer.Ignored, answer.Explained = []string{}, []RuleVerdict{}
	for _, name := range f["ignored"].Elems {
		answer.Ignored = append(answer.Ignored, name.Text)
	}
	for _, e := range f["explained"].Elems {
		f := named(e)
		rule := RuleVerdict{
			Name: f["name"].Text, Mode: f["mode"].Text, Applies: f["applies"].Int == 1, Why: f["why"].Text, Field: f["field"].Text,
			Has: f["has"].Text, Wants: f["wants"].Text, From: f["from"].Text, Limits: []ExplainedPart{},
		}
		for _, e := range f["limits"].Elems {
			f := named(e)
			part := ExplainedPart{Role: f["role"].Text, Spelling: f["limit"].Text, Cost: f["cost"].Int, Key: f["key"].Text}
			if part.Decision, err = decisionOf(f["decision"]); err != nil {
				return answer, err
			}
			rule.Limits = append(rule.Limits, part)
		}
		answer.Explained = append(answer.Explained, rule)
	}
	return answer, nil
}

// named returns the values of a map by their names.
func named(v resp.Value) map[string]resp.Value {
	all := map[string]resp.Value{}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		all[v.Elems[i].Text] = v.Elems[i+1]
	}
	return all
}
