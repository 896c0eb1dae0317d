// Package latency keeps the latest samples of slow commands, for LATENCY.
package latency

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"limitdb/config"
	"limitdb/internal/stats"
	"limitdb/server/spec"
)

// samplesMost is how many samples of an event are kept, as in Redis.
const samplesMost = 160

// Monitor keeps the latest samples of each kind of event.
type Monitor struct {
	Settings *config.Settings       // say what is slow
	Commands func() []stats.Command // returns the figures of the commands that were called

	mu     sync.Mutex // guards events
	events map[string]*event
}

// event holds the samples of one kind of event.
type event struct {
	samples []Sample // the oldest first
	max     int64    // ms, the longest since the last reset
}

// Sample is how long a command took, and when.
type Sample struct {
	At int64 // seconds of Unix time
	MS int64
}

// The events, by Redis' names.
const (
	eventCommand     = "command"
	eventFastCommand = "fast-command"
)

// Offer records that a command took that many nanoseconds, if that reaches latency-monitor-threshold.
func (m *Monitor) Offer(cmd *spec.Command, now, took int64) {
	least, ms := m.Settings.LatencyThreshold.Get(), took/int64(time.Millisecond)
	if least == 0 || ms < least {
		return
	}
	name := eventCommand
	if cmd.Flags&spec.Fast != 0 {
		name = eventFastCommand
	}
	m.Add(name, Sample{At: now / int64(time.Second), MS: ms})
}

// Add records a sample. It keeps only the longest of each second.
func (m *Monitor) Add(name string, s Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events = make(map[string]*event)
	}
	e := m.events[name]
	if e == nil {
		e = &event{}
		m.events[name] = e
	}
	e.max = max(e.max, s.MS)
	if last := len(e.samples) - 1; last >= 0 && e.samples[last].At == s.At {
		e.samples[last].MS = max(e.samples[last].MS, s.MS)
		return
	}
	if len(e.samples) == samplesMost {
		e.samples = slices.Delete(e.samples, 0, 1)
	}
	e.samples = append(e.samples, s)
}

// Last is one line of LATENCY LATEST.
type Last struct {
	Name string
	Sample
	Max int64 // ms, the longest since the last reset
}

// Latest returns the last sample of each event, in the order of their names.
func (m *Monitor) Latest() []Last {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Last
	for name, e := range m.events {
		all = append(all, Last{name, e.samples[len(e.samples)-1], e.max})
	}
	slices.SortFunc(all, func(a, b Last) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// History returns the samples of an event, the oldest first.
func (m *Monitor) History(name string) []Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.events[name]; e != nil {
		return slices.Clone(e.samples)
	}
	return nil
}

// Reset removes the events of these names, or all, and returns how many it removed.
func (m *Monitor) Reset(names ...string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.events)
	if len(names) == 0 {
		clear(m.events)
	}
	for _, name := range names {
		delete(m.events, name)
	}
	return n - len(m.events)
}
