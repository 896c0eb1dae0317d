package server

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"limitdb/server/spec"
)

// latencySamples is how many samples of an event are kept, as in Redis.
const latencySamples = 160

// latencyMonitor keeps the latest samples of commands that took latency-monitor-threshold or
// longer. Its zero value is ready to use.
type latencyMonitor struct {
	mu     sync.Mutex // guards events
	events map[string]*latencyEvent
}

// latencyEvent holds the samples of one kind of event.
type latencyEvent struct {
	samples []latencySample // the oldest first
	max     int64           // ms, the longest since the last reset
}

type latencySample struct{ at, ms int64 } // seconds of Unix time, and how long

// The events, by Redis' names.
const (
	eventCommand     = "command"
	eventFastCommand = "fast-command"
)

// offerLatency records that cmd took that many nanoseconds, if that reaches the threshold.
func (srv *Server) offerLatency(cmd *command, now, took int64) {
	least, ms := srv.set.LatencyThreshold.Get(), took/int64(time.Millisecond)
	if least == 0 || ms < least {
		return
	}
	name := eventCommand
	if cmd.Flags&spec.Fast != 0 {
		name = eventFastCommand
	}
	srv.latency.add(name, latencySample{now / int64(time.Second), ms})
}

// add records a sample. It keeps only the longest of each second.
func (m *latencyMonitor) add(name string, s latencySample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events = make(map[string]*latencyEvent)
	}
	e := m.events[name]
	if e == nil {
		e = &latencyEvent{}
		m.events[name] = e
	}
	e.max = max(e.max, s.ms)
	if last := len(e.samples) - 1; last >= 0 && e.samples[last].at == s.at {
		e.samples[last].ms = max(e.samples[last].ms, s.ms)
		return
	}
	if len(e.samples) == latencySamples {
		e.samples = slices.Delete(e.samples, 0, 1)
	}
	e.samples = append(e.samples, s)
}

// latencyLast is one line of LATENCY LATEST.
type latencyLast struct {
	name string
	latencySample
	max int64
}

// latest returns the last sample of each event, in the order of their names.
func (m *latencyMonitor) latest() []latencyLast {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []latencyLast
	for name, e := range m.events {
		all = append(all, latencyLast{name, e.samples[len(e.samples)-1], e.max})
	}
	slices.SortFunc(all, func(a, b latencyLast) int { return cmp.Compare(a.name, b.name) })
	return all
}

// history returns the samples of an event, the oldest first.
func (m *latencyMonitor) history(name string) []latencySample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.events[name]; e != nil {
		return slices.Clone(e.samples)
	}
	return nil
}

// reset removes the events of these names, or all, and returns how many it removed.
func (m *latencyMonitor) reset(names ...string) int {
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

func (c *call) latencyLatest() {
	all := c.srv.latency.latest()
	c.Array(len(all))
	for _, e := range all {
		c.Array(4)
		c.Text(e.name)
		c.Int(e.at)
		c.Int(e.ms)
		c.Int(e.max)
	}
}

func (c *call) latencyHistory() {
	all := c.srv.latency.history(string(c.Args[2]))
	c.Array(len(all))
	for _, e := range all {
		c.Array(2)
		c.Int(e.at)
		c.Int(e.ms)
	}
}

func (c *call) latencyReset() {
	var names []string
	for _, a := range c.Args[2:] {
		names = append(names, string(a))
	}
	c.Int(int64(c.srv.latency.reset(names...)))
}
