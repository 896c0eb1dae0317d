package rules

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"limitdb/limit"
)

// The requests of Envoy's rate limit service: a list of descriptors, each of which is looked up in the tree of a domain,
// and judged by itself.

// The bounds of one request.
const (
	// MaxDescriptors is the most descriptors of a request.
	MaxDescriptors = 1024
	// maxKept is how many bytes of keys a Lookup keeps room for.
	maxKept = 64 << 10
)

// Unit is the length of a limit's windows, with the numbers of Envoy's enum.
type Unit uint8

// The units.
const (
	NoUnit Unit = iota
	Second
	Minute
	Hour
	Day
	Month
	Year
	Week
)

// units has the units' names, lengths in seconds, letters in keys and spelling in rates. A month has 30 days and a year 365.
var units = [...]struct {
	name    string
	seconds int64
	letter  byte
	number  int64
	rate    string
}{
	NoUnit: {name: "UNKNOWN", letter: '?'},
	Second: {"SECOND", 1, 's', 1, "s"},
	Minute: {"MINUTE", 60, 'm', 1, "m"},
	Hour:   {"HOUR", 3600, 'h', 1, "h"},
	Day:    {"DAY", 86400, 'd', 1, "d"},
	Month:  {"MONTH", 30 * 86400, 'o', 30, "d"},
	Year:   {"YEAR", 365 * 86400, 'y', 365, "d"},
	Week:   {"WEEK", 7 * 86400, 'w', 1, "w"},
}

// known reports whether u is a unit that a limit can have.
func (u Unit) known() bool { return NoUnit < u && int(u) < len(units) }

// String returns the name in Envoy's enum.
func (u Unit) String() string {
	if !u.known() {
		return units[NoUnit].name
	}
	return units[u].name
}

// Seconds returns the length, or 0 of what is no unit.
func (u Unit) Seconds() int64 {
	if !u.known() {
		return 0
	}
	return units[u].seconds
}

// ParseUnit finds a unit by its name, in any case.
func ParseUnit(name string) (Unit, bool) {
	for u := Second; u.known(); u++ {
		if strings.EqualFold(name, units[u].name) {
			return u, true
		}
	}
	return NoUnit, false
}

// Rate is how many requests are allowed in each unit.
type Rate struct {
	PerUnit uint32
	Unit    Unit
}

// limit returns the limit with fixed windows that start at multiples of the unit since the epoch. countDenied has
// denied requests count as well, as Envoy's service counts them.
func (r Rate) limit(countDenied bool) limit.Limit {
	n := int64(r.PerUnit)
	return limit.Limit{Algorithm: limit.FIXED, Max: n, Burst: n, Period: r.Unit.Seconds() * 1e9, CountDenied: countDenied}
}

// Entry is a part of a descriptor.
type Entry struct{ Key, Value string }

// Descriptor is one descriptor of a request.
type Descriptor struct {
	// Entries are in the order in which the tree has them.
	Entries []Entry
	// Hits is what the request takes; 0 only looks.
	Hits uint64
	// Negative has Hits given back.
	Negative bool
	// Override, if it is not nil, takes the place of the tree's limit.
	Override *Rate
}

// Match is what limits a descriptor.
type Match struct {
	// Limit is what to take from; nil if nothing limits the descriptor.
	Limit *limit.Limit
	// Key is the caller's, valid until the next Find; nil without a Limit.
	Key []byte
	// Cost is what to take, 0 or more.
	Cost int64
	// Negative reports whether the cost is given back.
	Negative bool
	// Rate and Name describe the limit to the client.
	Rate Rate
	Name string
	// Unlimited reports whether the tree says that the descriptor has no limit.
	Unlimited bool
	// Index is that of the limit in the domain; -1 for one that the descriptor has brought, or none.
	Index int
	// Shadow and Quota report whether the limit denies nothing.
	Shadow, Quota bool

	windows bool // fixed windows of the unit, so the reset needs no state
	at      *branch
}

// Find's errors.
var (
	// ErrTooManyDescriptors is returned for a request with more than MaxDescriptors.
	ErrTooManyDescriptors = fmt.Errorf("a request has at most %d descriptors", MaxDescriptors)
	// ErrUnit is returned for a limit in a descriptor that has no unit.
	ErrUnit = errors.New("the limit of a descriptor needs a unit: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR")
)

// Lookup finds the limits of the descriptors of a request. The zero value is ready. It is used again, so that a Find
// allocates nothing. It belongs to one goroutine.
type Lookup struct {
	// Secret is hashed with entries that are too long for a key. The owner sets it once.
	Secret []byte
	// Matches are what limits the descriptors, one for each, in their order, after Find.
	Matches []Match

	domain    *Domain
	request   []Descriptor
	overrides []limit.Limit
	spans     []span   // of the keys
	keys      []byte   // of all matches
	word      []byte   // an entry as the tree has it
	shared    []string // by entry of one descriptor: what stands for its value; "": itself
	replaced  []bool   // by number of name
	names     []int32  // those that are replaced
}

// span is where a key is in Lookup.keys.
type span struct{ start, end int }

// Reset forgets the request, which may be large.
func (l *Lookup) Reset() {
	clear(l.Matches)
	clear(l.shared)
	l.Matches, l.request, l.domain = l.Matches[:0], nil, nil
	if cap(l.keys) > maxKept {
		l.keys = nil
	}
}

// Find finds what limits each descriptor of a request. The request must stay as it is until Reset or the next Find. The errors are
// ErrTooManyDescriptors and ErrUnit.
func (l *Lookup) Find(d *Domain, request []Descriptor) error {
	if len(request) > MaxDescriptors {
		return ErrTooManyDescriptors
	}
	l.domain, l.request = d, request
	l.Matches, l.overrides, l.spans, l.keys = l.Matches[:0], l.overrides[:0], l.spans[:0], l.keys[:0]
	if cap(l.overrides) < len(request) { // they are pointed to
		l.overrides = make([]limit.Limit, 0, len(request))
	}
	for i := range request {
		if err := l.find(&request[i]); err != nil {
			l.Matches = l.Matches[:0]
			return err
		}
	}
	l.replace()
	for i := range l.Matches {
		if m := &l.Matches[i]; m.Limit != nil {
			p := l.spans[i]
			m.Key = l.keys[p.start:p.end:p.end]
		}
	}
	return nil
}

// find appends what limits a descriptor.
func (l *Lookup) find(r *Descriptor) error {
	m := Match{Cost: int64(min(r.Hits, math.MaxInt64)), Negative: r.Negative, Index: -1}
	start, family := len(l.keys), l.domain.fixed
	if r.Override != nil {
		if !r.Override.Unit.known() {
			return ErrUnit
		}
		l.overrides = append(l.overrides, r.Override.limit(!l.domain.allOrNone))
		m.Limit, m.Rate, m.windows = &l.overrides[len(l.overrides)-1], *r.Override, true
		l.shared = l.shared[:0]
	} else if n := l.walk(r.Entries); n != nil {
		m.at, m.Unlimited, m.Index = n, n.unlimited, n.index
		if !n.unlimited {
			m.Limit, m.Rate, m.windows = &n.limit, n.rate, n.windows
			m.Name, m.Shadow, m.Quota, family = n.name, n.shadow, n.quota, n.family
		}
	}
	if m.Limit != nil {
		l.keys = l.appendKey(l.keys, m.Rate.Unit, family, r.Entries)
	}
	l.Matches, l.spans = append(l.Matches, m), append(l.spans, span{start, len(l.keys)})
	return nil
}

// walk returns the branch with the limit of a descriptor, or nil. It fills in l.shared.
func (l *Lookup) walk(entries []Entry) *branch {
	l.shared = l.shared[:0]
	n := &l.domain.root
	if len(entries) == 0 || len(entries) > l.domain.depth {
		return nil
	}
	for i := range entries {
		var wildcard bool
		if n, wildcard = l.step(n, &entries[i]); n == nil {
			return nil
		}
		as := ""
		if wildcard && n.share {
			as = n.pattern(&entries[i])
		}
		l.shared = append(l.shared, as)
	}
	if !n.limited {
		return nil
	}
	return n
}

// replace removes the limits that others of the request replace.
func (l *Lookup) replace() {
	if len(l.domain.names) == 0 {
		return
	}
	if len(l.replaced) < len(l.domain.names) {
		l.replaced = make([]bool, len(l.domain.names))
	}
	l.names = l.names[:0]
	for i := range l.Matches {
		n := l.Matches[i].at
		if n == nil {
			continue
		}
		for _, name := range n.replaces {
			if !l.replaced[name] {
				l.replaced[name], l.names = true, append(l.names, name)
			}
		}
	}
	if len(l.names) == 0 {
		return
	}
	for i := range l.Matches {
		if m := &l.Matches[i]; m.Limit != nil && m.at != nil && m.at.nameID >= 0 && l.replaced[m.at.nameID] {
			*m = Match{Cost: m.Cost, Negative: m.Negative, Index: -1}
		}
	}
	for _, name := range l.names {
		l.replaced[name] = false
	}
}

// Soft reports whether the limit denies nothing.
func (m *Match) Soft() bool { return m.Shadow || m.Quota }

// Binds reports whether the limit of m decides, rather than another of the same key: a descriptor may be there twice, once with a limit of its
// own. soft says whether the other denies nothing.
func (m *Match) Binds(other *limit.Limit, soft bool) bool {
	if m.Soft() != soft {
		return soft
	}
	return m.Limit.Max < other.Max
}

// Status is the answer for a descriptor.
type Status struct {
	// Denied reports whether the code is OVER_LIMIT.
	Denied bool
	// Over reports whether the limit is exceeded, also where shadow or quota mode lets the request pass.
	Over bool
	// Limited reports whether there is a limit to describe: Match.Rate and Match.Name.
	Limited bool
	// Remaining is what is left.
	Remaining uint32
	// Reset is the time until the limit is as if it had never been used, in seconds, rounded up; -1 if there is nothing
	// to tell.
	Reset int64
}

// Status returns the answer for a match, whose decision is d, at now in Unix ns. d may be nil if m has no Limit.
func (m *Match) Status(d *limit.Decision, now int64) Status {
	switch {
	case m.Unlimited:
		return Status{Remaining: math.MaxUint32, Reset: -1}
	case m.Limit == nil:
		return Status{Reset: -1}
	}
	const second = 1e9
	// A look denies only what is above the limit, and so nothing of a limit of 0.
	s := Status{Limited: true, Over: d.Limited && (m.Cost > 0 || m.Limit.Max > 0)}
	s.Denied = s.Over && !m.Shadow && !m.Quota
	if !s.Over {
		s.Remaining = uint32(min(d.Remaining, math.MaxUint32))
	}
	switch sec := m.Rate.Unit.Seconds(); {
	case s.Over && m.Quota && !m.Shadow:
		s.Reset = -1
	case m.windows:
		at := now / second
		if now < 0 && now%second != 0 {
			at--
		}
		s.Reset = sec - (at%sec+sec)%sec
	default:
		s.Reset = d.Reset/second + min(1, d.Reset%second)
	}
	return s
}
