// Package denials keeps the last denied requests in a fixed amount of memory, so that an operator can see why a caller was denied.
package denials

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"

	"limitdb/internal/origin"
	"limitdb/limit"
)

// A Log keeps the last denials. They are in sets by their key, each with a lock of its own. A caller gets at most half of its set,
// and its denials within a second are one entry if they agree in all but the time and what was left. So a caller that is denied all the time does not
// push out what is known of the others. Any goroutine may call the methods.
type Log struct {
	seed maphash.Seed
	sets []set
}

const (
	// ways is how many entries a set has, and keyWays how many of these one key may have.
	ways    = 16
	keyWays = ways / 2
	// maxKey is the most bytes of a key that an entry keeps.
	maxKey = 96
	// second is for how long an entry takes in denials like its own, in ns.
	second = 1_000_000_000
)

type set struct {
	mu      sync.Mutex // guards all below
	hashes  [ways]uint64
	entries [ways]entry
}

// entry is a denial with its key. Its Times is 0 if it is free.
type entry struct {
	Denial
	key    [maxKey]byte
	length uint8 // of key
	own    uint8 // how many of these bytes the denied key begins with
}

// Why says why a request was denied.
type Why uint8

// The reasons.
const (
	UsedUp  Why = iota // the limit is used up for now
	TooMuch            // the cost is above what the limit ever grants
	Blocked            // the limit is 0
	InLine             // enough is left, but others wait for it
	TooLate            // RL.RESERVE: the wait would be longer than MAXWAIT
	reasons = iota
)

var words = [reasons]string{"limit", "cost", "blocked", "queue", "maxwait"}

// String returns the reason as one word.
func (w Why) String() string { return words[w] }

// A Denial is one denied request, or several of one caller within a second.
type Denial struct {
	// At is when the last one was denied, and Since when the first one was, in ns of Unix time.
	At, Since int64
	// Times is how many there were.
	Times int64
	// Namespace and Rule name the rule that has denied; both are "" for a limit that came with the request.
	Namespace, Rule string
	// Limit is the limit that has denied, and Lease is set if that is one of leases, of which Limit has only Max.
	Limit limit.Limit
	Lease bool
	Why   Why
	Cost  int64
	// Left is what was left at the end, and Wait after how many ns the request would have been granted, or limit.Never.
	Left, Wait int64
	// From is who has sent the request.
	From *origin.Origin
}

// ReasonOf returns why a request for a cost was denied by a decision.
func ReasonOf(cost int64, d *limit.Decision) Why {
	switch {
	case d.Limit == 0:
		return Blocked
	case d.Wait == limit.Never:
		return TooMuch
	case d.Remaining >= cost:
		return InLine
	}
	return UsedUp
}

// New returns a log with room for about so many entries; nil, which keeps none, if that is 0.
func New(entries int64) *Log {
	if entries <= 0 {
		return nil
	}
	return &Log{seed: maphash.MakeSeed(), sets: make([]set, (entries+ways-1)/ways)}
}

// place returns the hash of a key, which is not 0, and the key's set.
func (l *Log) place(key []byte) (h uint64, s *set) {
	h = max(1, maphash.Bytes(l.seed, key))
	i, _ := bits.Mul64(h, uint64(len(l.sets)))
	return h, &l.sets[i]
}

// Add keeps a denial of a key, which is shown as such; shown has at most 96 bytes. d needs no Since and no Times.
func (l *Log) Add(key, shown []byte, d *Denial) {
	h, s := l.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, is := s.room(h, d)
	if is {
		e.At, e.Left, e.Wait, e.Times = max(e.At, d.At), d.Left, d.Wait, e.Times+1
		return
	}
	e.Denial = *d
	e.Since, e.Times = d.At, 1
	e.length = uint8(copy(e.key[:], shown))
	e.own = uint8(common(key, shown))
}

// common returns with how many equal bytes two keys begin.
func common(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// room returns the entry for a denial of a key: one that takes it in, or one to replace. The set is locked.
func (s *set) room(h uint64, d *Denial) (e *entry, is bool) {
	oldest, own, owned := 0, -1, 0
	for i := range s.entries {
		e := &s.entries[i]
		if s.hashes[i] == h {
			if e.like(d) {
				return e, true
			}
			if owned++; own < 0 || e.At < s.entries[own].At {
				own = i
			}
		}
		if e.At < s.entries[oldest].At {
			oldest = i
		}
	}
	if owned >= keyWays {
		oldest = own
	}
	s.hashes[oldest] = h
	return &s.entries[oldest], false
}

// like reports whether an entry takes in a denial.
func (e *entry) like(d *Denial) bool {
	return d.At-e.Since < second && e.Cost == d.Cost && e.Why == d.Why && e.Lease == d.Lease &&
		e.Rule == d.Rule && e.Namespace == d.Namespace && e.Limit == d.Limit && *e.From == *d.From
}

// A Found is a denial with its key, as it is shown.
type Found struct {
	Denial
	Key []byte
	// Own is how many bytes of Key the denied key begins with: all, unless it is long and Key shows only its beginning.
	Own int
}

// Of returns the last denials of a key, the newest first, and at most n.
func (l *Log) Of(key []byte, n int) []Found {
	h, s := l.place(key)
	return newest(s.add(nil, h), n)
}

// AddLast adds the denials of at most that many sets, beginning with set from, to found, which is in order, and cuts it to the
// newest n. It leaves out those that hidden, unless it is nil, reports true for. It also returns the next set, or 0 after the last one.
func (l *Log) AddLast(found []Found, n, from, sets int, hidden func(f Found) bool) (all []Found, next int) {
	last, known := min(len(l.sets), from+sets), len(found)
	for i := from; i < last; i++ {
		found = l.sets[i].add(found, 0)
	}
	if hidden != nil {
		found = found[:known+len(slices.DeleteFunc(found[known:], hidden))]
	}
	if last == len(l.sets) {
		last = 0
	}
	return newest(found, n), last
}

// add adds the entries of a key, or all if h is 0.
func (s *set) add(found []Found, h uint64) []Found {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.entries {
		if e := &s.entries[i]; e.Times > 0 && (h == 0 || s.hashes[i] == h) {
			found = append(found, Found{e.Denial, slices.Clone(e.key[:e.length]), int(e.own)})
		}
	}
	return found
}

// newest sorts denials, the newest first, and cuts them to n.
func newest(found []Found, n int) []Found {
	slices.SortStableFunc(found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Since, a.Since), bytes.Compare(a.Key, b.Key))
	})
	if len(found) > n {
		clear(found[n:])
		found = found[:n]
	}
	return found
}
