package rulebook

import (
	"bytes"
	"errors"
	"slices"

	"limitdb/engine"
	"limitdb/internal/decisionlog"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/denials"
	"limitdb/server/handler"
	"limitdb/server/request"
)

type (
	call = handler.Call
	txn  = handler.Txn
	row  = handler.Row[call]
)

// A check is a decision under rules: which rules apply, and what the engine says to their limits.
// Checks are used again, so a check allocates nothing.
type check struct {
	rules.Query
	book      *Book
	pooled    bool // the book's pool gets it back
	force     *inForce
	ns        *rules.Namespace
	how       how
	numFields int
	cost      int64
	explain   bool
	wait      int64 // the most ns that a denial waits; negative if WAIT is not given
	counted   counted
	held      request.HoldArgs // of HOLD; its TTL is 0 without that

	all    engine.Together       // the request to the engine; its slices are reused
	ds     []limit.Decision      // on Charges
	blocks []engine.BlockOutcome // of those that deny under a limit with BLOCK

	leases   leases
	released int64 // by RELEASE: how many leases were given back

	denied bool  // of a check that is counted
	at     int64 // when it was decided
}

// how says what a check does.
type how uint8

const (
	takes how = iota
	peeks
	refunds
	releases // leases
)

// errNoNamespace is the error for a namespace that no rules are in, and errTree for one with a tree of descriptors.
var (
	errNoNamespace = errors.New("no rules are in that namespace")
	errTree        = errors.New("that namespace has a tree of descriptors, which is for requests over gRPC")
)

// noNamespace returns the error for a namespace without rules.
func (b *Book) noNamespace(name []byte) error {
	if b.Domain(string(name)) != nil {
		return errTree
	}
	return errNoNamespace
}

// check returns a check to give back with Free.
func (b *Book) check() *check {
	k, ok := b.pool.Get().(*check)
	if !ok {
		k = &check{book: b, pooled: true}
	}
	k.Secret = b.secret.bytes()
	return k
}

// begin begins a check in a namespace. The errors are errNoNamespace and errTree.
func (k *check) begin(b *Book, namespace []byte) error {
	k.force, k.how, k.cost, k.explain, k.wait = b.force.Load(), takes, 1, false, -1
	k.counted.given = false
	k.Rates = false
	k.ns = k.force.set.Namespace(namespace)
	if k.ns == nil {
		return b.noNamespace(namespace)
	}
	k.Begin(k.ns)
	return nil
}

// prepareCheck parses a check, and finds its rules and the keys of their callers.
func prepareCheck(b *Book, c *call) (handler.Prepared, string) {
	if text := b.secret.missing(); text != "" {
		return nil, text
	}
	if words, ok := settleWords(c.Args[1:]); ok {
		return prepareSettle(b, c, words)
	}
	k := b.check()
	text := k.parse(b, c.Args[1:])
	if text == "" && k.held.TTL > 0 {
		text = lacksTag(k.ns, &k.Query)
	}
	if text == "" {
		if err := k.Match(k.cost); err != nil {
			text = errorText(err, c.Args[1])
		}
	}
	if text != "" {
		k.Free()
		return nil, text
	}
	k.list(c.Args[1])
	k.all.Once = k.counted.once(k)
	k.charge()
	k.timed(c)
	return k, ""
}

// Keys implements handler.Prepared.
func (k *check) Keys() [][]byte {
	if k.all.Once != nil {
		return k.counted.with(k.all.Keys)
	}
	return k.all.Declares()
}

// Keep implements handler.Prepared. A transaction may have thousands of checks.
func (k *check) Keep() handler.Prepared {
	if !k.pooled {
		return k
	}
	own := &check{Query: k.Found(), book: k.book, force: k.force, ns: k.ns, how: k.how, cost: k.cost, explain: k.explain, held: k.held, wait: k.wait}
	own.held.ID = bytes.Clone(k.held.ID)
	own.all.Once = own.counted.keep(&k.counted)
	if own.charge(); k.how == releases {
		own.leases.id = slices.Clone(k.leases.id)
	}
	k.Free()
	return own
}

// Free implements handler.Prepared.
func (k *check) Free() {
	if k.pooled {
		k.force, k.ns, k.held, k.all.Hold, k.all.Once = nil, nil, request.HoldArgs{}, nil, nil
		k.book.pool.Put(k)
	}
}

// decide decides a check in one step for all its rules. After an error nothing has been taken.
func decide(c *call, t *txn) {
	if s, ok := c.Prepared.(*settle); ok {
		s.do(c, t)
		return
	}
	k := c.Prepared.(*check)
	k.timed(c)
	at, err := k.step(t)
	if err = t.Note(err); t.Err == nil {
		k.tell(c, at, t.Now(), err)
	}
}

// step takes, looks or refunds. at is the limit that denies, or -1.
func (k *check) step(t *txn) (at int, err error) {
	switch {
	case k.how == releases:
		return -1, k.release(t)
	case k.how == refunds:
		return -1, t.RefundAll(&k.all)
	case len(k.Charges) > 0 || k.all.Hold != nil:
		return t.Together(&k.all)
	}
	return -1, nil
}

// tell counts a check that was decided at a time, and replies. at is the limit that denies, or -1.
func (k *check) tell(c *call, at int, now int64, err error) {
	c.Quorum = c.Quorum || k.all.Once != nil || k.all.Hold != nil
	if err != nil {
		c.Fail(errorText(err, nil))
		return
	}
	if k.how == takes && !k.again() {
		if k.denied, k.at = at >= 0, now; !c.Then(len(k.Charges)*chargeCount, k) {
			c.Step.End(engine.ErrTooMany)
			return
		}
	}
	k.reply(c)
}

// again reports whether the check was granted before.
func (k *check) again() bool {
	return k.all.Once != nil && k.all.Once.Again || k.all.Hold != nil && k.all.Hold.Again
}

// Cross implements handler.Crosses.
func (k *check) Cross() (all []handler.Asked, text string) {
	var each handler.Each
	switch {
	case k.how == releases:
		each = handler.Each{How: handler.Releases, ID: k.leases.id}
	case k.how == refunds:
		each.How = handler.Refunds
	case k.all.Hold != nil:
		text = handler.ErrOneSlot("HOLD")
	case k.all.Once != nil:
		text = handler.ErrOneSlot("ONCE")
	case k.wait >= 0:
		text = handler.ErrOneSlot("WAIT")
	}
	return []handler.Asked{{Together: &k.all, Each: each}}, text
}

// Crossed implements handler.Crosses.
func (k *check) Crossed(c *call, all []handler.Answered) {
	k.timed(c)
	k.released = all[0].Sum
	k.tell(c, all[0].At, c.Now, all[0].Err)
}

// chargeCount is about how many bytes a charge takes until it is counted.
const chargeCount = 64

// Happen implements handler.Effect: the check is counted, and offered to the log of decisions.
func (k *check) Happen(c *call) {
	k.count(c.Lane, k.denied)
	k.log(c, k.at)
	if k.denied {
		k.deny(c)
	}
}

// charge makes the request to the engine from the charges.
func (k *check) charge() {
	a := &k.all
	if k.how == releases {
		k.chargeRelease()
		return
	}
	n := len(k.Charges)
	a.Keys, a.Limits, a.Costs, a.Soft = room(a.Keys, n), room(a.Limits, n), room(a.Costs, n), room(a.Soft, n)
	k.ds, k.blocks = room(k.ds, n), room(k.blocks, n)
	for i := range k.Charges {
		c := &k.Charges[i]
		a.Keys[i], a.Limits[i], a.Costs[i], a.Soft[i] = c.Key, *c.Limit, c.Cost, c.Role != rules.Enforced
	}
	a.Leases = k.leases.of(k.Charges, k.ownID())
	a.Decisions, a.Blocks, a.CountDenied, a.Peek = k.ds, k.blocks, true, k.how == peeks
	if a.Hold = nil; k.held.TTL > 0 {
		a.Hold = &k.held.Hold
	}
}

// room returns s with n elements, which have any values.
func room[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// takes reports whether the check takes something, so that it is counted and logged.
func (k *check) takes() bool { return k.how == takes && k.cost > 0 }

// log offers the decisions of the rules that enforce, or would, to the log of decisions.
func (k *check) log(c *call, now int64) {
	to := c.Decisions
	if to == nil || !k.takes() {
		return
	}
	for i := range k.Charges {
		c, d := &k.Charges[i], &k.ds[i]
		if c.Role != rules.Candidate {
			log := decisionlog.Decision{
				Time: now, Key: c.Key, Cost: c.Cost, Limited: d.Limited, Limit: d.Limit, Remaining: d.Remaining, Rule: k.ns.Name() + "/" + c.Rule.Name,
			}
			if k.held.TTL > 0 && !k.denied && c.Role == rules.Enforced && c.InFlight == nil {
				log.Held, log.Until, log.Returns = k.held.ID, now+k.held.TTL, k.held.Returns
			}
			to.Offer(&log)
		}
	}
}

// deny keeps the denials of the rules that enforce.
func (k *check) deny(to *call) {
	for i := range k.Charges {
		if c, d := &k.Charges[i], &k.ds[i]; d.Limited && c.Role == rules.Enforced {
			to.Deny(c.Key, d, &denials.Denial{Namespace: k.ns.Name(), Rule: c.Rule.Name, Lease: c.InFlight != nil, Limit: *c.Limit, Cost: c.Cost})
		}
	}
}

// count counts what a check was for each rule and in its namespace.
func (k *check) count(lane int, denied bool) {
	if len(k.Charges) == 0 && k.how == takes && k.all.Hold == nil { // the engine has the others
		k.force.free.Add(lane, stats.RuleAllowed)
	}
	if !k.takes() {
		return
	}
	if !denied {
		for _, r := range k.Unlimited {
			k.force.counters[r.Index].Add(lane, stats.RuleAllowed)
		}
	}
	if !denied && slices.ContainsFunc(k.ds[:len(k.Charges)], func(d limit.Decision) bool { return d.Limited }) { // in shadow mode, or by a candidate
		k.force.free.Add(lane, stats.RuleShadowLimited)
	}
	if at := k.ns.Index; at < len(k.force.tallies) {
		outcome := stats.RuleAllowed
		if denied {
			outcome = stats.RuleLimited
		}
		k.force.tallies[at].outcomes.Add(lane, outcome)
	}
	for i := range k.Charges {
		c := &k.Charges[i]
		if as, ok := k.outcome(i, denied); ok {
			k.force.counters[c.Rule.Index].Add(lane, as)
		}
		if k.ds[i].Limited && c.Limit.Block > 0 && c.Role != rules.Candidate {
			countBlock(k.force.counters[c.Rule.Index], lane, k.all.Blocks[i])
		}
	}
}

// countBlock counts what a block had to do with a denial.
func countBlock(to *stats.RuleCounters, lane int, as engine.BlockOutcome) {
	switch as {
	case engine.BlockBegun:
		to.Add(lane, stats.RuleBlocks)
	case engine.InBlock:
		to.Add(lane, stats.RuleBlocked)
	}
}

// outcome returns what a check was for the rule of a charge, and whether that is counted. Of a denied check, only the
// denials are: nothing has been taken from the other rules.
func (k *check) outcome(i int, denied bool) (as stats.RuleOutcome, counted bool) {
	c, d := &k.Charges[i], &k.ds[i]
	switch {
	case k.leases.some && !k.Counts(i, k.ds):
		return 0, false
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
func (k *check) answer() (d limit.Decision, rule string) {
	if at := k.Deciding(k.ds); at >= 0 {
		return k.ds[at], k.Charges[at].Rule.Name
	}
	if len(k.Unlimited) > 0 {
		rule = k.Unlimited[0].Name
	}
	return limit.Decision{Limit: -1, Remaining: -1, Wait: limit.Never}, rule
}

// errorText returns the reply for an error of a check.
func errorText(err error, namespace []byte) string {
	var field *rules.FieldError
	switch {
	case err == errNoNamespace, err == errTree:
		return "NORULE " + err.Error() + ": " + resp.Quote(namespace)
	case errors.As(err, &field), err == rules.ErrTooMany:
		return "ERR " + err.Error()
	}
	return request.ErrorText(err)
}
