package stats

import "sync"

// Base holds the values of counters at the last reset. Counters only grow, as Prometheus requires; those that are shown since the reset
// are differences to these. The zero value is a reset at the start. Any goroutine may call its methods.
type Base struct {
	mu       sync.Mutex // guards all below
	commands map[string]Command
	values   map[string]uint64
}

// Commands returns all less their values at the last reset, without those that were not called since. It uses the memory of all.
func (b *Base) Commands(all []Command) []Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := all[:0]
	for _, t := range all {
		t = t.Since(b.commands[t.Name])
		if t.Calls()+t.Rejected > 0 {
			out = append(out, t)
		}
	}
	return out
}

// Value returns the counter of that name, which is now at n, less its value at the last reset.
func (b *Base) Value(name string, n uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return n - b.values[name]
}

// Reset makes these the values of the last reset.
func (b *Base) Reset(commands []Command, values map[string]uint64) {
	named := make(map[string]Command, len(commands))
	for _, t := range commands {
		named[t.Name] = t
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commands, b.values = named, values
}
