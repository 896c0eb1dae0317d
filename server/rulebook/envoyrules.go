package rulebook

import (
	"math"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/rules"
	"limitdb/server/handler"
)

// A request of Envoy's rate limit service in a namespace of ordinary rules: each descriptor is a check, whose fields are the entries.

// byRules has the checks of the descriptors; nil in a namespace that there is not.
type byRules []*check

// prepareRules finds the rules of each descriptor.
func (b *Book) prepareRules(c *call, all []rules.Descriptor) (handler.Prepared, string) {
	checks := make(byRules, len(all))
	for i := range all {
		k, text := b.checkOf(c.Args[1], &all[i])
		if text != "" {
			checks.Free()
			return nil, inDescriptor(text, i)
		}
		if checks[i] = k; k != nil {
			k.timed(c)
		}
	}
	return checks, ""
}

// checkOf returns the check of a descriptor, nil in a namespace that there is not.
func (b *Book) checkOf(namespace []byte, d *rules.Descriptor) (k *check, text string) {
	k = b.check()
	if k.begin(b, namespace) != nil {
		k.Free()
		return nil, ""
	}
	k.Rates = true // nobody could give a lease back
	if k.cost = int64(min(d.Hits, math.MaxInt64)); d.Negative {
		k.how = refunds
	}
	var err error
	for i := 0; i < len(d.Entries) && err == nil; i++ {
		err = k.Add([]byte(d.Entries[i].Key), []byte(d.Entries[i].Value))
	}
	if err == nil {
		err = k.Match(k.cost)
	}
	switch {
	case err != nil:
		text = errorText(err, namespace)
	case d.Override != nil:
		text = "ERR LIMIT needs a domain with descriptors: the rules of a namespace have their own limits"
	default:
		k.charge()
		return k, ""
	}
	k.Free()
	return nil, text
}

// Keys implements handler.Prepared.
func (all byRules) Keys() (keys [][]byte) {
	for _, k := range all {
		if k != nil {
			keys = append(keys, k.Keys()...)
		}
	}
	return keys
}

// Keep implements handler.Prepared.
func (all byRules) Keep() handler.Prepared {
	for i, k := range all {
		if k != nil {
			all[i] = k.Keep().(*check)
		}
	}
	return all
}

// Free implements handler.Prepared.
func (all byRules) Free() {
	for _, k := range all {
		if k != nil {
			k.Free()
		}
	}
}

// Waits implements handler.Prepared: it does not ask.
func (all byRules) Waits() int64 { return -1 }

// Cross implements handler.Crosses: each descriptor is a request.
func (all byRules) Cross() (asks []handler.Asked, text string) {
	for _, k := range all {
		if k == nil {
			continue
		}
		one, text := k.Cross()
		if text != "" {
			return nil, text
		}
		asks = append(asks, one...)
	}
	return asks, ""
}

// Crossed implements handler.Crosses. What was decided counts, whatever has become of others.
func (all byRules) Crossed(c *call, answers []handler.Answered) {
	statuses, failed := make([]status, len(all)), false
	for i, k := range all {
		statuses[i] = status{requests: -1, reset: -1}
		if k == nil {
			continue
		}
		a := answers[0]
		answers = answers[1:]
		switch {
		case a.Err != nil && !failed:
			c.Fail(inDescriptor(errorText(a.Err, nil), i))
			failed = true
		case a.Decided && k.how == takes:
			k.denied, k.at = a.At >= 0, c.Now
			c.Then(len(k.Charges)*chargeCount, k)
		}
		statuses[i] = k.status()
	}
	if !failed {
		replyEnvoy(c, statuses)
	}
}

// decide implements envoyRequest.
func (all byRules) decide(c *call, t *txn) {
	statuses := make([]status, len(all))
	for i, k := range all {
		statuses[i] = status{requests: -1, reset: -1}
		if k == nil {
			continue
		}
		k.timed(c)
		at, err := k.step(t)
		if err = t.Note(err); t.Err != nil {
			return
		}
		if err != nil {
			c.Fail(inDescriptor(errorText(err, nil), i))
			return
		}
		if k.how == takes {
			k.denied, k.at = at >= 0, t.Now()
			if !c.Then(len(k.Charges)*chargeCount, k) {
				t.End(engine.ErrTooMany)
				return
			}
		}
		statuses[i] = k.status()
	}
	replyEnvoy(c, statuses)
}

// status returns the answer to a check that has been decided.
func (k *check) status() status {
	at := k.Deciding(k.ds)
	if at < 0 {
		return status{requests: -1, remaining: int64(min(len(k.Unlimited), 1)) * math.MaxUint32, reset: -1}
	}
	charge, d := &k.Charges[at], &k.ds[at]
	return status{
		over: d.Limited && k.how != refunds, requests: charge.Limit.Max, unit: unitOf(charge.Limit).String(), name: charge.Rule.Name,
		remaining: d.Remaining, reset: limit.Seconds(d.Reset),
	}
}

// unitOf returns the unit that is a limit's period, rules.NoUnit if none is.
func unitOf(l *limit.Limit) rules.Unit {
	for u := rules.Second; u.Seconds() > 0; u++ {
		if l.Period == u.Seconds()*1e9 {
			return u
		}
	}
	return rules.NoUnit
}
