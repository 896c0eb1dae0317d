package rulebook

import (
	"limitdb/internal/stats"
	"limitdb/rules"
	"limitdb/server/denials"
)

// The figures of trees of descriptors, which RL.RULES STATS shows beside those of rules. Each limit of a tree has counters, by its name.

// treeFigures are the figures of a domain.
type treeFigures struct {
	domain   *rules.Domain
	counters []*stats.RuleCounters // by Match.Index
	windows  []*stats.RuleWindow   // by Match.Index, of the first maxWindows limits of all domains
	tally    tally                 // of the first maxTallies domains; else without counters
}

// limitID returns the name of a limit among all domains.
func limitID(d *rules.Domain, index int) string { return d.Name() + "\x00" + d.LimitName(index) }

// countTrees makes the figures of the domains that come into force with rules and with files. What is counted already goes on. The lock is held.
func (b *Book) countTrees(set *rules.Set, ds *rules.Domains) {
	counters, windows, tallies := map[string]*stats.RuleCounters{}, map[string]*stats.RuleWindow{}, map[string]tally{}
	for _, f := range b.treeFigures() {
		tallies[f.domain.Name()] = f.tally
		for i, c := range f.counters {
			id := limitID(f.domain, i)
			if counters[id] = c; i < len(f.windows) {
				windows[id] = f.windows[i]
			}
		}
	}
	all := set.Domains()
	if ds != nil {
		all = append(all[:len(all):len(all)], ds.All()...)
	}
	next, room, now := make(map[*rules.Domain]*treeFigures, len(all)), maxWindows, b.Clock.Now()
	for _, d := range all {
		f := &treeFigures{domain: d, counters: make([]*stats.RuleCounters, d.Limits())}
		for i := range f.counters {
			id := limitID(d, i)
			if f.counters[i] = counters[id]; f.counters[i] == nil {
				f.counters[i] = stats.NewRuleCounters(b.Lanes, now)
			}
			if room == 0 {
				continue
			}
			w := windows[id]
			if w == nil {
				w = stats.NewRuleWindow(now, f.counters[i].Sum())
			}
			f.windows, room = append(f.windows, w), room-1
		}
		if f.tally = tallies[d.Name()]; f.tally.outcomes == nil && len(next) < maxTallies {
			f.tally = tally{stats.NewLatency(b.Lanes), stats.NewRuleCounters(b.Lanes, now)}
		}
		next[d] = f
	}
	b.trees.figures.Store(&next)
}

// figuresOf returns the figures of a domain, nil for one that has been replaced.
func (b *Book) figuresOf(d *rules.Domain) *treeFigures {
	if all := b.trees.figures.Load(); all != nil {
		return (*all)[d]
	}
	return nil
}

// treeFigures returns the figures of the domains in force.
func (b *Book) treeFigures() (all []*treeFigures) {
	for _, d := range b.Domains() {
		if f := b.figuresOf(d); f != nil {
			all = append(all, f)
		}
	}
	return all
}

// A figured is a limit, or a rule, with what it has counted.
type figured struct {
	namespace, name, mode string
	counters              *stats.RuleCounters
	window                *stats.RuleWindow // nil: there is none
	checks                Checks            // of the namespace
}

// checks returns the figures of the domain.
func (f *treeFigures) checks() (all Checks) {
	if t := f.tally; t.outcomes != nil {
		sum := t.outcomes.Sum()
		all = Checks{f.domain.Name(), sum.Allowed, sum.Limited, t.took.Sum()}
	}
	return all
}

// limit returns the limit with an index.
func (f *treeFigures) limit(i int, checks Checks) figured {
	all := figured{namespace: f.domain.Name(), name: f.domain.LimitName(i), mode: f.domain.LimitMode(i), counters: f.counters[i], checks: checks}
	if i < len(f.windows) {
		all.window = f.windows[i]
	}
	return all
}

// sum returns what was counted in the last minutes, or since that began if minutes is 0.
func (r *figured) sum(now, minutes int64) (t stats.RuleTotals) {
	switch {
	case minutes == 0:
		return r.counters.Totals()
	case r.window != nil:
		t.Rule, t.Since = r.window.Over(now, r.counters.Sum(), minutes)
	}
	return t
}

// count counts what a request was for the limits of its descriptors and in its domain, and keeps the denials.
func (e *byTree) count(c *call) {
	denied, took := false, false
	for i := range e.Matches {
		m, s := &e.Matches[i], &e.told[i]
		if m.Cost == 0 || m.Negative {
			continue
		}
		took, denied = true, denied || s.Denied
		if s.Denied {
			d := denials.Denial{Namespace: e.domain.Name(), Limit: *m.Limit, Cost: m.Cost}
			if m.Index >= 0 {
				d.Rule = e.domain.LimitName(m.Index)
			}
			c.Deny(m.Key, &e.ds[i], &d)
		}
	}
	f := e.figures
	if f == nil || !took {
		return
	}
	if f.tally.outcomes != nil {
		outcome := stats.RuleAllowed
		if denied {
			outcome = stats.RuleLimited
		}
		f.tally.outcomes.Add(c.Lane, outcome)
	}
	for i := range e.Matches {
		m := &e.Matches[i]
		if m.Cost == 0 || m.Negative || m.Index < 0 || denied && e.domain.AllOrNone() && !e.told[i].Over {
			continue
		}
		f.counters[m.Index].Add(c.Lane, e.outcome(i))
		countBlock(f.counters[m.Index], c.Lane, e.blocks[i])
	}
}

// outcome returns what a request was for the limit of a descriptor.
func (e *byTree) outcome(i int) stats.RuleOutcome {
	switch s := &e.told[i]; {
	case s.Denied:
		return stats.RuleLimited
	case s.Over:
		return stats.RuleShadowLimited
	case e.Matches[i].Limit != nil && rules.NearLimit(&e.ds[i]):
		return stats.RuleNear
	}
	return stats.RuleAllowed
}
