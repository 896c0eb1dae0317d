package server

import (
	"strconv"
	"sync"
	"time"
)

// slowlog holds the last commands that took long. The zero value is ready.
type slowlog struct {
	mu      sync.Mutex  // guards all below
	entries []slowEntry // oldest first
	nextID  int64
}

// slowEntry is one command that took long.
type slowEntry struct {
	id   int64
	at   int64 // Unix seconds
	us   int64 // how long it ran
	args []string
	addr string
	name string
}

// What an entry keeps of a command, as in Redis.
const (
	slowArgs  = 32
	slowBytes = 128
)

// offer takes in a command that has run for took nanoseconds, if that is slow.
// A command that has parked its session is not through yet, and waiting is no
// work: it is left out.
func (l *slowlog) offer(s *session, cmd *command, args [][]byte, took int64) {
	if s.resume == nil {
		l.take(s, cmd, args, took)
	}
}

// take is offer for any command; slow is what slowlog-log-slower-than says.
func (l *slowlog) take(s *session, cmd *command, args [][]byte, took int64) {
	if l.isSlow(s, took) {
		l.note(s, cutArgs(s.srv.redact(cmd, args)), took)
	}
}

func (l *slowlog) isSlow(s *session, took int64) bool {
	least := s.srv.set.SlowlogLogSlowerThan.Get()
	return least >= 0 && took/int64(time.Microsecond) >= least
}

// note is take for arguments that were redacted and cut before.
func (l *slowlog) note(s *session, args []string, took int64) {
	if !l.isSlow(s, took) {
		return
	}
	l.add(int(s.srv.set.SlowlogMaxLen.Get()), slowEntry{
		at: s.call.now / int64(time.Second), us: took / int64(time.Microsecond), args: args, addr: s.addr(), name: loadText(&s.pub.name),
	})
}

// add numbers e, stores it and drops the oldest over most.
func (l *slowlog) add(most int, e slowEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.nextID
	l.nextID++
	l.entries = append(l.entries, e)
	if over := len(l.entries) - most; over > 0 {
		clear(l.entries[:over])
		l.entries = l.entries[over:]
	}
}

// last returns the newest n entries, the newest first; n < 0: all.
func (l *slowlog) last(n int64) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > int64(len(l.entries)) {
		n = int64(len(l.entries))
	}
	out := make([]slowEntry, 0, n)
	for i := len(l.entries) - 1; int64(len(out)) < n; i-- {
		out = append(out, l.entries[i])
	}
	return out
}

func (l *slowlog) len() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.entries))
}

// total is how many commands there ever were, dropped and forgotten ones included.
func (l *slowlog) total() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(l.nextID)
}

// reset forgets the entries; numbers go on.
func (l *slowlog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// cutArgs copies args within slowArgs and slowBytes and says what is missing.
func cutArgs(args [][]byte) []string {
	n := len(args)
	if n > slowArgs {
		n = slowArgs - 1
	}
	out := make([]string, n, n+1)
	for i, a := range args[:n] {
		if len(a) <= slowBytes {
			out[i] = string(a)
			continue
		}
		out[i] = string(a[:slowBytes]) + "... (" + strconv.Itoa(len(a)-slowBytes) + " more bytes)"
	}
	if n < len(args) {
		out = append(out, "... ("+strconv.Itoa(len(args)-n)+" more arguments)")
	}
	return out
}
