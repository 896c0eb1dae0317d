package simulate

import (
	"fmt"
	"reflect"
	"strings"
)

// merged returns the result with one row for limits that differ only in the name of their algorithm: "GCRA,
// TOKEN 20/m".
func (r *Result) merged() *Result {
	m := *r
	m.Limits, m.Timeline.Denied = nil, nil
	var names []string // of the algorithms of each row
	for i, o := range r.Limits {
		name, rest, _ := strings.Cut(o.Limit, " ")
		o.algorithm, o.Limit = "", rest
		same := -1
		for j := range m.Limits {
			if reflect.DeepEqual(m.Limits[j], o) {
				same = j
			}
		}
		if same >= 0 {
			names[same] += ", " + name
			continue
		}
		names = append(names, name)
		m.Limits = append(m.Limits, o)
		m.Timeline.Denied = append(m.Timeline.Denied, r.Timeline.Denied[i])
	}
	for i := range m.Limits {
		m.Limits[i].Limit = names[i] + " " + m.Limits[i].Limit
	}
	return &m
}

const (
	// maxVerdicts is the maximum number of limits with a sentence of their own.
	maxVerdicts = 4
	// maxNamed is the maximum number of callers that a sentence names.
	maxNamed = 3
	// maxCaller is the maximum number of characters of a caller's name in a sentence.
	maxCaller = 40
)

// verdict says in one sentence whom a limit would deny.
func (r *Result) verdict(o *Outcome) string {
	delayed := ""
	if o.Delay.Count > 0 {
		delayed = fmt.Sprintf(" It would delay %s, by %s at most.", plural(o.Delay.Count, "request"), duration(o.Delay.Worst))
	}
	if o.Callers == 0 {
		return o.Limit + " would touch nobody." + delayed
	}
	var named []string
	for _, c := range o.Top[:min(len(o.Top), maxNamed)] {
		named = append(named, fmt.Sprintf("%s (%s of %s denied)", shortName(c.Caller), thousands(c.Denied), thousands(c.Requests)))
	}
	if more := o.Callers - uint64(len(named)); more > 0 {
		named = append(named, thousands(more)+" more")
	}
	return fmt.Sprintf("%s would touch %s of %s: %s.", o.Limit, thousands(o.Callers), plural(uint64(r.Callers), "caller"), listed(named)) + delayed
}

// verdicts returns a sentence for each limit, up to maxVerdicts. lists says where the
// others are.
func (r *Result) verdicts(lists string) []string {
	var all []string
	for i := range r.Limits[:min(len(r.Limits), maxVerdicts)] {
		all = append(all, r.verdict(&r.Limits[i]))
	}
	if more := len(r.Limits) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%s show whom the other %s would touch.", lists, plural(uint64(more), "limit")))
	}
	return all
}

// advice says what callers ask for, and which limit would suit that.
func (r *Result) advice() string {
	d := &r.Demand
	if d.Most == 0 {
		return ""
	}
	text := fmt.Sprintf("In any %s, half of the callers ask for at most %s, 99 %% for at most %s, and the busiest, %s, for %s.",
		duration(d.Window), thousands(d.Median), thousands(d.P99), shortName(d.MostBy), thousands(d.Most))
	if d.Suggested != "" {
		text += fmt.Sprintf(" Suggested: %s, which would deny nothing to 99 %% of the callers.", d.Suggested)
	}
	return text
}

// shortName returns a caller's name for a sentence.
func shortName(caller string) string {
	name := []rune(printable(caller))
	switch {
	case len(name) == 0:
		return "all"
	case len(name) > maxCaller:
		return string(name[:maxCaller-1]) + "…"
	}
	return string(name)
}

// listed returns "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
