package stats

import (
	"math"
	"sync"
)

const (
	minute = 60_000_000_000 // ns
	// WindowMinutes and WindowHours are how many minutes and hours a RuleWindow keeps, with the present one.
	WindowMinutes = 60
	WindowHours   = 24
)

// RuleWindow keeps what a rule has counted in each of the last minutes and hours. Any goroutine may call its methods.
type RuleWindow struct {
	mu      sync.Mutex // guards all below
	before  Rule       // the counters when the present minute began
	now     int64      // the present minute, counted from the epoch
	minutes [WindowMinutes]ruleBucket
	hours   [WindowHours]ruleBucket // the present one without the present minute
}

// ruleBucket has the counts of a minute or an hour. Counts above 2³² - 1 are that.
type ruleBucket struct {
	at                                         int32 // the minute or hour, counted from the epoch
	allowed, near, limited, shadow, candidates uint32
	blocks, blocked                            uint32
}

// add adds what was counted in a minute or hour.
func (b *ruleBucket) add(at int64, r *Rule) {
	if b.at != int32(at) {
		*b = ruleBucket{at: int32(at)}
	}
	plus := func(to *uint32, n uint64) { *to = uint32(min(uint64(*to)+min(n, math.MaxUint32), math.MaxUint32)) }
	plus(&b.allowed, r.Allowed)
	plus(&b.near, r.Near)
	plus(&b.limited, r.Limited)
	plus(&b.shadow, r.ShadowLimited)
	plus(&b.candidates, r.CandidateLimited)
	plus(&b.blocks, r.Blocks)
	plus(&b.blocked, r.Blocked)
}

func (b *ruleBucket) rule() Rule {
	return Rule{uint64(b.allowed), uint64(b.near), uint64(b.limited), uint64(b.shadow), uint64(b.candidates), uint64(b.blocks), uint64(b.blocked)}
}

// NewRuleWindow returns the window of a rule whose counters are sum at a time.
func NewRuleWindow(now int64, sum Rule) *RuleWindow {
	return &RuleWindow{before: sum, now: now / minute}
}

// Look notes that a rule's counters are sum at a time. Call it at least once a minute.
func (w *RuleWindow) Look(now int64, sum Rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(now, sum)
}

// look is Look with the lock held.
func (w *RuleWindow) look(now int64, sum Rule) {
	m := now / minute
	if m <= w.now {
		return
	}
	counted := sum.since(w.before)
	w.minutes[w.now%WindowMinutes].add(w.now, &counted)
	w.hours[w.now/60%WindowHours].add(w.now/60, &counted)
	w.before, w.now = sum, m
}

// since returns what r has counted since before; 0 where it began again.
func (r Rule) since(before Rule) Rule {
	return r.combine(before, func(a, b uint64) uint64 { return a - min(a, b) })
}

// Over returns what was counted in the last n minutes, with the present one, and when the first of them began. Above WindowMinutes, it counts by
// hours.
func (w *RuleWindow) Over(now int64, sum Rule, n int64) (counted Rule, since int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(now, sum)
	counted = sum.since(w.before)
	plus := func(a, b uint64) uint64 { return a + b }
	if n <= WindowMinutes {
		first := w.now - n + 1
		for i := range w.minutes {
			if b := &w.minutes[i]; int64(b.at) >= first {
				counted = counted.combine(b.rule(), plus)
			}
		}
		return counted, first * minute
	}
	first := w.now/60 - min((n+59)/60, WindowHours) + 1
	for i := range w.hours {
		if b := &w.hours[i]; int64(b.at) >= first {
			counted = counted.combine(b.rule(), plus)
		}
	}
	return counted, first * 60 * minute
}

// RuleMinute is what a rule has counted in a minute.
type RuleMinute struct {
	// Begin is when it began, in ns of Unix time.
	Begin int64
	Rule
}

// Minutes returns what was counted in each of the last minutes, the oldest first, and the present one last.
func (w *RuleWindow) Minutes(now int64, sum Rule) []RuleMinute {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(now, sum)
	all := make([]RuleMinute, WindowMinutes)
	for i := range all {
		m := w.now - int64(len(all)-1-i)
		all[i].Begin = m * minute
		if b := &w.minutes[m%WindowMinutes]; int64(b.at) == m {
			all[i].Rule = b.rule()
		}
	}
	all[len(all)-1].Rule = sum.since(w.before)
	return all
}
