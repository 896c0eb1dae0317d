package server

import (
	"errors"
	"fmt"
	"slices"

	"limitdb/engine"
	"limitdb/internal/decisionlog"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/request"
)

// A checking is one check under rules: which rules apply, and what the engine says to their limits.
// Checkings are reused, so a check allocates nothing.
type checking struct {
	rules.Query
	force   *rulesInForce
	ns      *rules.Namespace
	how     checkHow
	cost    int64
	explain bool
	wait    int64 // the most ns that a denial waits; negative if WAIT is not given

	all engine.Together  // what the engine is asked; its slices are reused
	ds  []limit.Decision // on Charges
}

// checkHow says what a check does.
type checkHow uint8

const (
	checkTakes checkHow = iota
	checkPeeks
	checkRefunds
)

// errNoNamespace is the error for a namespace that no rules are in.
var errNoNamespace = errors.New("no rules are in that namespace")

// checking returns a checking to give back with doneChecking.
func (srv *Server) checking() *checking {
	k, ok := srv.rules.pool.Get().(*checking)
	if !ok {
		k = new(checking)
	}
	k.Secret = srv.rules.secret.Load()[:]
	return k
}

func (srv *Server) doneChecking(k *checking) {
	k.force, k.ns = nil, nil
	srv.rules.pool.Put(k)
}

// begin begins a check in a namespace. The error is errNoNamespace.
func (k *checking) begin(srv *Server, namespace []byte) error {
	k.force, k.how, k.cost, k.explain, k.wait = srv.rules.force.Load(), checkTakes, 1, false, -1
	k.ns = k.force.set.Namespace(namespace)
	if k.ns == nil {
		return errNoNamespace
	}
	k.Begin(k.ns)
	return nil
}

// decide decides the check at now, in one atomic step for all rules, and counts the outcome in a lane. After
// an error nothing has been taken. The errors are those of rules.Query.Match and of engine.Together.
func (k *checking) decide(srv *Server, lane int, now int64) error {
	if err := k.Match(k.cost); err != nil {
		return err
	}
	k.charge()
	if len(k.Charges) == 0 {
		k.count(lane, false)
		return nil
	}
	if k.how == checkRefunds {
		return srv.states().RefundAll(now, k.all.Keys, k.all.Limits, k.all.Costs, k.ds)
	}
	at, err := srv.states().Together(now, &k.all)
	if err == nil {
		k.count(lane, at >= 0)
		k.log(srv, now)
	}
	return err
}

// charge makes what the engine is asked of the charges.
func (k *checking) charge() {
	a := &k.all
	a.Keys, a.Limits, a.Costs, a.Soft = a.Keys[:0], a.Limits[:0], a.Costs[:0], a.Soft[:0]
	for i := range k.Charges {
		c := &k.Charges[i]
		a.Keys, a.Limits, a.Costs = append(a.Keys, c.Key), append(a.Limits, *c.Limit), append(a.Costs, c.Cost)
		a.Soft = append(a.Soft, c.Role != rules.Enforced)
	}
	n := len(k.Charges)
	k.ds = slices.Grow(k.ds[:0], n)[:n]
	a.Decisions, a.Peek = k.ds, k.how == checkPeeks
}

// takes reports whether the check takes something, so that it is counted and logged.
func (k *checking) takes() bool { return k.how == checkTakes && k.cost > 0 }

// log offers the decisions of the rules that enforce, or would, to the log of decisions.
func (k *checking) log(srv *Server, now int64) {
	if srv.parts.Decisions == nil || !k.takes() {
		return
	}
	for i := range k.Charges {
		c, d := &k.Charges[i], &k.ds[i]
		if c.Role != rules.Candidate {
			srv.parts.Decisions.Offer(&decisionlog.Decision{
				Time: now, Key: c.Key, Cost: c.Cost, Limited: d.Limited, Limit: d.Limit, Remaining: d.Remaining, Rule: k.ns.Name() + "/" + c.Rule.Name,
			})
		}
	}
}

// count counts what a check was for each rule.
func (k *checking) count(lane int, denied bool) {
	if k.Unlimited != nil && k.how == checkTakes {
		k.force.counters[k.Unlimited.Index].Add(lane, stats.RuleAllowed)
	}
	if !k.takes() {
		return
	}
	for i := range k.Charges {
		if as, ok := k.outcome(i, denied); ok {
			k.force.counters[k.Charges[i].Rule.Index].Add(lane, as)
		}
	}
}

// outcome returns what a check was for the rule of a charge, and whether that is counted. Of a denied check, only the
// denials are: nothing has been taken from the other rules.
func (k *checking) outcome(i int, denied bool) (as stats.RuleOutcome, counted bool) {
	c, d := &k.Charges[i], &k.ds[i]
	switch {
	case d.Limited && c.Role == rules.Candidate:
		return stats.RuleCandidateLimited, true
	case d.Limited && c.Role == rules.Shadowed:
		return stats.RuleShadowLimited, true
	case d.Limited:
		return stats.RuleLimited, true
	case denied || c.Role == rules.Candidate:
		return 0, false
	case rules.NearLimit(d):
		return stats.RuleNear, true
	}
	return stats.RuleAllowed, true
}

// answer returns the decision on the whole check, and the name of the rule that it comes from.
func (k *checking) answer() (d limit.Decision, rule string) {
	if at := k.Deciding(k.ds); at >= 0 {
		return k.ds[at], k.Charges[at].Rule.Name
	}
	if k.Unlimited != nil {
		rule = k.Unlimited.Name
	}
	return limit.Decision{Limit: -1, Remaining: -1, Wait: limit.Never}, rule
}

// checkError returns the reply for an error of a check.
func checkError(err error, namespace []byte) string {
	var field *rules.FieldError
	switch {
	case err == errNoNamespace:
		return "NORULE " + err.Error() + ": " + resp.Quote(namespace)
	case errors.As(err, &field), err == rules.ErrTooMany:
		return "ERR " + err.Error()
	}
	return request.ErrorText(err)
}

// Field is a field of a check.
type Field struct{ Name, Value []byte }

// CheckRequest asks for a decision under the rules of a namespace.
type CheckRequest struct {
	Namespace []byte
	Fields    []Field
	// Cost is what rules without a field for it take; 0 takes nothing anywhere.
	Cost int64
	// Peek answers as if the cost was taken, and changes nothing. Refund gives the cost back.
	Peek, Refund bool
	// Explain asks for Parts.
	Explain bool
	// Lane is a number of the caller's choice, such as that of a connection: callers with different numbers
	// rarely count in the same cache line.
	Lane int
}

// CheckAnswer is the decision on a check.
type CheckAnswer struct {
	// Decision is that of the rule that decides. Its Limit and Remaining are -1 if no rule limits the caller.
	limit.Decision
	// Rule is the name of that rule; "" if no rule matches.
	Rule string
	// Spelling is the spelling of that rule's limit; "" if no rule limits the caller.
	Spelling string
	// Parts are the decisions of all rules that match.
	Parts []CheckPart
}

// CheckPart is the decision of one rule. Only an Enforced one can deny the check.
type CheckPart struct {
	limit.Decision
	Rule, Spelling string
	Role           rules.Role
	Cost           int64
}

// Check decides a request that does not come from a client of the RESP port, at the time now. The error, in the
// words of a reply ("NORULE …", "ERR …"), says why nothing was decided; nothing has been taken then. If
// Durability is set, the answer must not be sent before its Wait is over.
func (srv *Server) Check(now int64, r *CheckRequest) (CheckAnswer, error) {
	if text := srv.refusesCheck(); text != "" {
		return CheckAnswer{}, errors.New(text)
	}
	k := srv.checking()
	defer srv.doneChecking(k)
	err := k.begin(srv, r.Namespace)
	if err == nil && len(r.Fields) > rules.MaxFields {
		return CheckAnswer{}, fmt.Errorf("ERR a check has at most %d fields", rules.MaxFields)
	}
	for i := 0; err == nil && i < len(r.Fields); i++ {
		err = k.Add(r.Fields[i].Name, r.Fields[i].Value)
	}
	if err == nil && r.Cost < 0 {
		return CheckAnswer{}, errors.New(request.ErrCostNegative)
	}
	if err == nil {
		switch k.cost = r.Cost; {
		case r.Refund:
			k.how = checkRefunds
		case r.Peek:
			k.how = checkPeeks
		}
		err = k.decide(srv, r.Lane, now)
	}
	if err != nil {
		return CheckAnswer{}, errors.New(checkError(err, r.Namespace))
	}
	var a CheckAnswer
	a.Decision, a.Rule = k.answer()
	if at := k.Deciding(k.ds); at >= 0 {
		a.Spelling = k.Charges[at].Limit.String()
	}
	for i := range k.Charges {
		if c := &k.Charges[i]; r.Explain {
			a.Parts = append(a.Parts, CheckPart{k.ds[i], c.Rule.Name, c.Limit.String(), c.Role, c.Cost})
		}
	}
	return a, nil
}

// refusesCheck returns why no check is decided now, in the words of a reply; "" if checks are.
func (srv *Server) refusesCheck() string {
	c := call{srv: srv, cmd: srv.table.find([]byte("RL.CHECK"))}
	return c.refusal(srv.special.Load())
}
