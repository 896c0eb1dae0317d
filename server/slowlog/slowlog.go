// Package slowlog keeps the last slow commands.
package slowlog

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"limitdb/config"
	"limitdb/server/clients"
)

// A Log holds the last slow commands. Any goroutine may call its methods.
type Log struct {
	Settings *config.Settings // say what is slow, and how many commands are kept

	mu      sync.Mutex // guards all below
	entries []Entry    // oldest first
	nextID  int64
}

// An Entry is one slow command.
type Entry struct {
	ID     int64 // numbered from 0, by Add
	At     int64 // Unix seconds
	Micros int64 // how long it ran
	Args   []string
	Addr   string // of the client
	Name   string // of the client, as set by CLIENT SETNAME
}

// Limits on the arguments that an entry keeps, as in Redis.
const (
	maxArgs  = 32
	maxBytes = 128
)

// Slow reports whether took, in nanoseconds, reaches slowlog-log-slower-than.
func (l *Log) Slow(took int64) bool {
	least := l.Settings.SlowlogLogSlowerThan.Get()
	return least >= 0 && took/int64(time.Microsecond) >= least
}

// Note keeps a client's command that has run at a time for took nanoseconds, if that is slow. Its arguments have no secrets, and are cut.
func (l *Log) Note(by *clients.Client, args []string, at, took int64) {
	if l.Slow(took) {
		l.Add(int(l.Settings.SlowlogMaxLen.Get()), Entry{
			At: at / int64(time.Second), Micros: took / int64(time.Microsecond), Args: args, Addr: by.Addr(), Name: by.Name.String(),
		})
	}
}

// Add numbers e, stores it and drops the oldest entries beyond most.
func (l *Log) Add(most int, e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.nextID
	l.nextID++
	l.entries = append(l.entries, e)
	if over := len(l.entries) - most; over > 0 {
		clear(l.entries[:over])
		l.entries = l.entries[over:]
	}
}

// Last returns the newest n entries, or all if n < 0, the newest first.
func (l *Log) Last(n int64) []Entry { return l.Before(math.MaxInt64, n) }

// Before is Last for the entries with an ID below id.
func (l *Log) Before(id, n int64) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := int64(len(l.entries))
	if end > 0 {
		end = min(max(0, id-l.entries[0].ID), end)
	}
	if n < 0 || n > end {
		n = end
	}
	out := slices.Clone(l.entries[end-n : end])
	slices.Reverse(out)
	return out
}

// Len returns the number of entries.
func (l *Log) Len() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.entries))
}

// Total returns the number of entries ever added.
func (l *Log) Total() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(l.nextID)
}

// Reset removes all entries. The numbering continues.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// Cut returns a copy of args cut to the limits of an entry, with notes of what is missing.
func Cut(args [][]byte) []string {
	n := len(args)
	if n > maxArgs {
		n = maxArgs - 1
	}
	out := make([]string, n, n+1)
	for i, a := range args[:n] {
		if len(a) <= maxBytes {
			out[i] = string(a)
			continue
		}
		out[i] = string(a[:maxBytes]) + "... (" + strconv.Itoa(len(a)-maxBytes) + " more bytes)"
	}
	if n < len(args) {
		out = append(out, "... ("+strconv.Itoa(len(args)-n)+" more arguments)")
	}
	return out
}
