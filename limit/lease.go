package limit

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"limitdb/state"
)

// Leases limit how much is in flight. Each holder, named by an id, has a share of a
// limit until it gives the share back or its time runs out. The semaphore is
// Dijkstra's (1965), the lease Gray's and Cheriton's (1989). A lease expires by
// itself, so a holder that dies blocks nobody for longer than its time.
//
// The state is the time at which the last lease ends, as Expires wants it, and
// an entry for each lease, the soonest to end first:
//
//	 0              8
//	┌──────────────┬─────────┬──────────────┬───────────┬──────┬─────────┬─ …
//	│ the last end │ its end │ weight       │ length    │  id  │ its end │
//	│ 8 bytes      │ 8 bytes │ uvarint, 1–9 │ of the id │      │         │
//	└──────────────┴─────────┴──────────────┴───────────┴──────┴─────────┴─ …
//	                └────────── a lease, 10 + id bytes or more ─┘
//
// A state of 256 bytes or more has a revision of 4 bytes before the first lease (see
// since.go). With this order the ended leases are a prefix, and the wait of a denial is found
// by a walk from the front, until enough has ended. No lease lasts longer than the
// state: where the last end has been brought forward, as a restart under another
// clock does, leases that would end later end then.

// The bounds of leases.
const (
	// MaxLeaseID is the largest number of bytes of a lease's id.
	MaxLeaseID = 255
	// MaxHolders is the largest number of leases of one key at a time. A step walks
	// over all of them. Larger weights serve where more would be needed.
	MaxHolders = 8192
)

// Lease is a request for a share of what may be in flight.
type Lease struct {
	// Limit is how much may be in flight, 0 or more.
	Limit int64
	// TTL is how long the lease lasts, in ns, 1 or more.
	TTL int64
	// Weight is the share, 1 or more.
	Weight int64
	// ID names the holder, 1 to MaxLeaseID bytes.
	ID []byte
}

// Holder is a lease that has not ended.
type Holder struct {
	ID     []byte // a part of the state, valid as long as the state
	Weight int64
	// End is the Unix time in ns from which the lease is over.
	End int64
}

// Validate returns ErrMax, ErrTTL, ErrWeight or ErrLeaseID for a field that is out
// of range.
func (l *Lease) Validate() error {
	switch {
	case l.Limit < 0:
		return ErrMax
	case l.TTL < 1:
		return ErrTTL
	case l.Weight < 1:
		return ErrWeight
	case len(l.ID) < 1 || len(l.ID) > MaxLeaseID:
		return ErrLeaseID
	}
	return nil
}

// TakeLease asks for a lease at time now and writes the answer to *d. Limit is
// the lease's. Remaining is how much may still be leased. Wait is the time until
// enough leases have ended if none is given back or renewed. Reset is the time
// until the last one has ended.
//
// An id that holds a lease renews it, and may change its weight; it does not count
// twice. A lease that does not grow is never denied, even if the limit has shrunk
// below what is in flight. A denial leaves the lease as it was.
//
// state, next and dst are as in Take; next may be larger than MaxState. The
// errors are those of Lease.Validate, and ErrHolders, ErrState, ErrOverflow. After
// an error nothing has changed.
func TakeLease(l *Lease, state []byte, now int64, dst []byte, d *Decision) (next []byte, err error) {
	s, err := l.decide(state, now, d)
	if err != nil || d.Limited {
		return nil, err
	}
	return s.put(state, dst, l.ID, l.Weight, now+l.TTL), nil
}

// PeekLease answers as TakeLease would, and changes nothing.
func PeekLease(l *Lease, state []byte, now int64, d *Decision) error {
	_, err := l.decide(state, now, d)
	return err
}

// DenyLease denies l, because others must go first. Wait is 0 if l could be granted. The
// errors are those of TakeLease.
func DenyLease(l *Lease, state []byte, now int64, d *Decision) error {
	if err := l.Validate(); err != nil {
		return err
	}
	s, err := surveyLeases(state, now, l.ID)
	if err != nil {
		return err
	}
	return l.deny(&s, state, now, d)
}

// Renews reports whether the id already holds as much as l asks for, so that
// TakeLease would not deny it. It returns false if state is damaged.
func (l *Lease) Renews(state []byte, now int64) bool {
	s, err := surveyLeases(state, now, l.ID)
	return err == nil && l.Weight <= s.own
}

// RenewLease makes the lease of id end ttl ns from now, and returns its weight. The
// error is ErrNoLease if id holds none; the others are ErrTTL, ErrState and
// ErrOverflow. state, next and dst are as in TakeLease.
func RenewLease(id []byte, ttl int64, state []byte, now int64, dst []byte) (next []byte, weight int64, err error) {
	end := now + ttl
	switch {
	case ttl < 1:
		return nil, 0, ErrTTL
	case end < now:
		return nil, 0, ErrOverflow
	}
	s, err := surveyLeases(state, now, id)
	switch {
	case err != nil:
		return nil, 0, err
	case s.own == 0:
		return nil, 0, at(ErrNoLease, id)
	}
	return s.put(state, dst, id, s.own, end), s.own, nil
}

// ReleaseLease ends the lease of id and returns its weight. The error is ErrNoLease
// if id holds none, ErrState if state is damaged. state, next and dst are as in
// TakeLease; a next without leases has expired.
func ReleaseLease(id, state []byte, now int64, dst []byte) (next []byte, weight int64, err error) {
	s, err := surveyLeases(state, now, id)
	switch {
	case err != nil:
		return nil, 0, err
	case s.own == 0:
		return nil, 0, at(ErrNoLease, id)
	}
	return s.put(state, dst, nil, 0, 0), s.own, nil
}

// Holders yields the leases that have not ended at now, the soonest to end first.
func Holders(state []byte, now int64) iter.Seq[Holder] {
	return func(yield func(Holder) bool) {
		for off := leaseHead(state); off < len(state); {
			h, size := leaseAt(state, off)
			if size == 0 {
				return
			}
			if h.End > now && !yield(h) {
				return
			}
			off += size
		}
	}
}

// leaseLevel is Level for leases.
func leaseLevel(state []byte, now int64) int64 {
	s, err := surveyLeases(state, now, nil)
	if err != nil {
		return 0
	}
	return s.others
}

// leaseSurvey is the result of a walk over a state.
type leaseSurvey struct {
	others int64 // the weight of the leases of other ids
	n      int   // how many these are
	last   int64 // the end of the last of them; never if there is none
	live   int   // the offset of the first lease that has not ended
	moved  bool  // some would end later than the state

	own         int64 // the weight of the id's lease, 0 if it has none
	ownEnd      int64
	from, until int // the offsets of that lease
}

// surveyLeases walks over a state. The error is ErrState if the state is damaged.
func surveyLeases(state []byte, now int64, id []byte) (s leaseSurvey, err error) {
	s.live, s.last, s.ownEnd = leaseHead(state), never, never
	if len(state) == 0 {
		return s, nil
	}
	if len(state) < timeSize {
		return s, ErrState
	}
	end, expires := never, Expires(LEASE, state)
	for off := s.live; off < len(state); {
		h, size := lease(state[off:])
		if size == 0 || h.End < end {
			return s, ErrState
		}
		end = h.End
		h.End = min(h.End, expires)
		switch {
		case h.End <= now:
			s.live = off + size
		case string(h.ID) == string(id) && s.own == 0:
			s.own, s.ownEnd, s.from, s.until = h.Weight, h.End, off, off+size
		default:
			if h.Weight > math.MaxInt64-s.others {
				return s, ErrState
			}
			s.others += h.Weight
			s.n++
			s.last = h.End
		}
		off += size
	}
	if end < expires {
		return s, ErrState
	}
	s.moved = end > expires
	return s, nil
}

// decide is TakeLease without the next state.
func (l *Lease) decide(state []byte, now int64, d *Decision) (s leaseSurvey, err error) {
	if err := l.Validate(); err != nil {
		return s, err
	}
	end := now + l.TTL
	if end < now {
		return s, ErrOverflow
	}
	if s, err = surveyLeases(state, now, l.ID); err != nil {
		return s, err
	}
	free := l.Limit - s.others // what the others leave; negative if the limit has shrunk
	if l.Weight > max(free, s.own) {
		return s, l.deny(&s, state, now, d)
	}
	if s.n >= MaxHolders {
		return s, ErrHolders
	}
	reset := max(s.last, end) - now
	if reset < 0 {
		return s, ErrOverflow
	}
	*d = Decision{Limit: l.Limit, Remaining: max(0, free-l.Weight), Wait: Never, Reset: reset}
	return s, nil
}

// deny writes a denial to *d.
func (l *Lease) deny(s *leaseSurvey, state []byte, now int64, d *Decision) error {
	free := l.Limit - s.others
	wait, reset := Never, max(s.last, s.ownEnd, now)-now
	if l.Weight <= l.Limit {
		wait = s.freed(state, l.Weight-free, l.ID, now) - now
	}
	if reset < 0 || wait < Never {
		return ErrOverflow
	}
	*d = Decision{Limited: true, Limit: l.Limit, Remaining: max(0, free-s.own), Wait: wait, Reset: reset}
	return nil
}

// freed returns when leases of other ids with a weight of want have ended; now if
// want is 0 or less.
func (s *leaseSurvey) freed(state []byte, want int64, id []byte, now int64) int64 {
	if want <= 0 {
		return now
	}
	for off := s.live; off < len(state); {
		h, size := leaseAt(state, off)
		off += size
		if string(h.ID) == string(id) {
			continue
		}
		if want -= h.Weight; want <= 0 {
			return h.End
		}
	}
	return s.last
}

// put writes the leases that have not ended over dst. The lease of id gets weight
// and end; it is left out if weight is 0.
func (s *leaseSurvey) put(state, dst, id []byte, weight, end int64) []byte {
	last := s.last
	if weight > 0 {
		last = max(last, end)
	}
	// The leases that stay move towards the front, so dst may be state.
	before, after := []byte(nil), []byte(nil)
	if s.own > 0 {
		before, after = state[s.live:s.from], state[s.until:]
	} else if len(state) > 0 {
		before = state[s.live:]
	}
	var buf [leaseSize]byte
	entry := buf[:0]
	if weight > 0 {
		entry = binary.LittleEndian.AppendUint64(entry, uint64(end))
		entry = binary.AppendUvarint(entry, uint64(weight))
		entry = append(entry, byte(len(id)))
		entry = append(entry, id...)
	}
	head, revision := timeSize, uint32(0)
	if head+len(before)+len(after)+len(entry) >= longLease-revisionSize {
		head = leaseStart
		if leaseHead(state) == head {
			revision = binary.LittleEndian.Uint32(state[timeSize:])
		}
	}
	n := head + len(before) + len(after)
	next := slices.Grow(dst[:0], n+len(entry))[:n]
	copy(next[head:], before)
	copy(next[head+len(before):], after)
	binary.LittleEndian.PutUint64(next, uint64(last))
	if head == leaseStart {
		binary.LittleEndian.PutUint32(next[timeSize:], revision)
	}
	if s.moved {
		bringForward(next[head:], max(s.last, s.ownEnd))
	}
	if weight == 0 {
		return next
	}
	place := head
	for place < len(next) {
		h, size := lease(next[place:])
		if h.End > end {
			break
		}
		place += size
	}
	return slices.Insert(next, place, entry...)
}

// bringForward makes no lease of a list end after to.
func bringForward(list []byte, to int64) {
	for len(list) > 0 {
		h, size := lease(list)
		binary.LittleEndian.PutUint64(list, uint64(min(h.End, to)))
		list = list[size:]
	}
}

// never is the end of no lease: before all others.
const never int64 = math.MinInt64

const (
	timeSize     = 8
	longLease    = state.LongLease
	revisionSize = state.RevisionSize
	leaseStart   = timeSize + revisionSize // of a state with a revision
	// leaseSize is the largest number of bytes of one lease's entry.
	leaseSize = timeSize + binary.MaxVarintLen64 + 1 + MaxLeaseID
)

// leaseHead returns where the leases of a state begin.
func leaseHead(state []byte) int {
	if len(state) >= longLease {
		return leaseStart
	}
	return timeSize
}

// leaseAt reads the entry at an offset of a state.
func leaseAt(state []byte, off int) (h Holder, size int) {
	h, size = lease(state[off:])
	h.End = min(h.End, Expires(LEASE, state))
	return h, size
}

// lease reads the entry at the front of b; its size is 0 if there is none.
func lease(b []byte) (h Holder, size int) {
	if len(b) < timeSize {
		return h, 0
	}
	h.End = int64(binary.LittleEndian.Uint64(b))
	weight, n := binary.Uvarint(b[timeSize:])
	if n <= 0 || weight == 0 || weight > math.MaxInt64 {
		return h, 0
	}
	h.Weight = int64(weight)
	from := timeSize + n + 1
	if len(b) < from || len(b) < from+int(b[from-1]) || b[from-1] == 0 {
		return h, 0
	}
	h.ID = b[from : from+int(b[from-1])]
	return h, from + len(h.ID)
}
