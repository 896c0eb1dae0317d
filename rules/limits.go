package rules

import (
	"fmt"
	"strconv"
	"strings"

	"limitdb/limit"
)

// The limit of a rule is written as for RL.TAKE; its algorithm may be left out. With a plan it is a
// template, an algorithm and options without a rate, and the plan has the rate:
//
//	limit: fixed calendar day tz Europe/Berlin     and 1000/d of the plan
//	                                               FIXED 1000 CALENDAR DAY TZ Europe/Berlin

// spelling is the words of a limit, in parts.
type spelling struct {
	algorithm string   // "" if none is named
	rate      []string // of limit and period; nil of a template
	options   []string
}

// spell splits the text of a limit.
func spell(text string) spelling {
	var s spelling
	words := strings.Fields(text)
	if len(words) > 0 && !startsWithDigit(words[0]) {
		if _, ok := limit.Lookup([]byte(words[0])); ok || len(words) > 1 && startsWithDigit(words[1]) {
			s.algorithm, words = words[0], words[1:]
		}
	}
	if len(words) > 0 && startsWithDigit(words[0]) {
		n := 1
		if !strings.Contains(words[0], "/") && len(words) > 1 && !strings.EqualFold(words[1], "calendar") && startsWithDigit(words[1]) {
			n = 2
		}
		s.rate, words = words[:n], words[n:]
	}
	s.options = words
	return s
}

func startsWithDigit(word string) bool { return word[0] >= '0' && word[0] <= '9' }

// has reports whether s has an option.
func (s *spelling) has(option string) bool {
	for _, w := range s.options {
		if strings.EqualFold(w, option) {
			return true
		}
	}
	return false
}

// calendar returns the unit of CALENDAR in lower case; "" without one.
func (s *spelling) calendar() (unit string) {
	for i, w := range s.options {
		if strings.EqualFold(w, "calendar") && i+1 < len(s.options) {
			unit = strings.ToLower(s.options[i+1])
		}
	}
	return unit
}

// String joins the parts.
func (s *spelling) String() string {
	words := append([]string{s.algorithm}, s.rate...)
	return strings.Join(append(words, s.options...), " ")
}

// beside has what a rule says beside its limit, for a limit that does not say it.
type beside struct {
	burst string // "" for none
	block string // the words of BLOCK; "" for none
}

// parseLimit parses a whole limit, with the algorithm that it has if it names none, and what is said beside it.
func parseLimit(text, algorithm string, beside beside, zones *limit.Zones) (terms, error) {
	s := spell(text)
	if s.algorithm == "" {
		s.algorithm = algorithm
	}
	return s.terms(beside, zones)
}

func (s *spelling) terms(beside beside, zones *limit.Zones) (t terms, err error) {
	if beside.burst != "" {
		if s.has("burst") {
			return t, fmt.Errorf("%s has a BURST of its own", quote(s.String()))
		}
		s.options = append(s.options, "BURST", beside.burst)
	}
	if beside.block != "" {
		if s.has("block") {
			return t, fmt.Errorf("%s has a BLOCK of its own", quote(s.String()))
		}
		s.options = append(s.options, beside.block)
	}
	p := limit.Parser{Zones: zones}
	t.limit, err = p.Parse(s.String())
	t.family = familyOf(t.limit.Algorithm)
	return t, err
}

// parsePlan parses the limit of a plan, with the template of a rule, which may be empty.
func parsePlan(text, template, algorithm string, beside beside, zones *limit.Zones) (terms, error) {
	if strings.EqualFold(strings.TrimSpace(text), "unlimited") {
		return terms{unlimited: true}, nil
	}
	s := spell(text)
	if s.has("burst") {
		beside.burst = ""
	}
	if s.has("block") {
		beside.block = ""
	}
	if template == "" {
		if s.algorithm == "" {
			s.algorithm = algorithm
		}
		return s.terms(beside, zones)
	}
	t := spell(template)
	switch {
	case t.rate != nil:
		return terms{}, fmt.Errorf("the rule's limit %s has a rate: with a plan, the plan has it", quote(template))
	case s.algorithm != "":
		return terms{}, fmt.Errorf("both the rule's limit %s and the plan's %s name an algorithm", quote(template), quote(text))
	case s.rate == nil:
		return terms{}, fmt.Errorf("%s has no rate", quote(text))
	}
	if s.algorithm = t.algorithm; s.algorithm == "" {
		s.algorithm = algorithm
	}
	s.options = append(append([]string{}, t.options...), s.options...)
	if t.has("calendar") {
		if err := s.fitCalendar(); err != nil {
			return terms{}, err
		}
	}
	return s.terms(beside, zones)
}

// calendarPeriods has the period, as a rate says it, of the calendar's units that have one.
var calendarPeriods = [...]struct{ unit, period string }{
	{"second", "s"}, {"minute", "m"}, {"hour", "h"}, {"day", "d"}, {"week", "w"},
}

// fitCalendar makes a rate fit the calendar of its options: 1000 and 1000/d fit a day, 1000/h does not.
func (s *spelling) fitCalendar() error {
	unit := s.calendar()
	count, period, slash := strings.Cut(s.rate[0], "/")
	if len(s.rate) == 1 && !slash {
		return nil
	}
	for _, c := range calendarPeriods {
		if c.unit == unit && len(s.rate) == 1 && (strings.EqualFold(period, c.period) || strings.EqualFold(period, "1"+c.period)) {
			s.rate = []string{count}
			return nil
		}
	}
	if _, err := strconv.ParseInt(count, 10, 64); err != nil {
		return fmt.Errorf("%s is not a rate", quote(s.rate[0]))
	}
	return fmt.Errorf("%s does not fit calendar %s: write %s", quote(strings.Join(s.rate, " ")), unit, count)
}
