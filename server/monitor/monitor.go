// Package monitor sends the commands that run to the clients that have sent MONITOR.
package monitor

import (
	"fmt"
	"strconv"
	"sync"

	"limitdb/resp"
	"limitdb/server/clients"
)

const (
	// Most is the most clients that may monitor at once. The client whose command runs spends its turn on writing to all of them.
	Most = 32
	// LineMost is the length, in bytes, after which a line has no further argument.
	LineMost = 4 << 10
)

// Set holds the clients that monitor. Any goroutine may call its methods.
type Set struct {
	// Changed is called, with a lock held, when somebody has begun to monitor or ended it, with whether anybody does.
	Changed func(any bool)

	mu  sync.Mutex // guards set
	set map[*clients.Client]bool
}

// Add lets c monitor, and reports whether there was room for it. It calls ready before it gives c the first line.
func (m *Set) Add(c *clients.Client, ready func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.set) >= Most && !m.set[c] {
		return false
	}
	ready()
	if m.set == nil {
		m.set = map[*clients.Client]bool{}
	}
	m.set[c] = true
	m.Changed(true)
	c.Monitor.Store(true)
	return true
}

// Remove ends that c monitors.
func (m *Set) Remove(c *clients.Client) {
	m.mu.Lock()
	delete(m.set, c)
	m.Changed(len(m.set) > 0)
	m.mu.Unlock()
	c.Monitor.Store(false)
}

// Len returns the number of clients that monitor.
func (m *Set) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.set)
}

// Send sends lines to every client that monitors but for one, and reports whether that one monitors as well.
func (m *Set) Send(lines []byte, but *clients.Client) (also bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for to := range m.set {
		if to == but {
			also = true
			continue
		}
		to.Deliver(lines)
	}
	return also
}

// AppendLine appends the line of a command that has run at a time, in ns of Unix time:
//
//	+1339518083.107412 [0 127.0.0.1:60866] "cl.throttle" "user123" "15" "30" "60"
//
// The arguments have no secrets. If there are too many, the line says how many are left out.
func AppendLine(b []byte, from string, now int64, args [][]byte) []byte {
	b = fmt.Appendf(b, "+%d.%06d [0 %s]", now/1e9, now/1e3%1e6, from)
	begin := len(b)
	for i, a := range args {
		b = append(b, ' ')
		if len(b)-begin > LineMost {
			b = append(b, "... ("...)
			b = strconv.AppendInt(b, int64(len(args)-i), 10)
			b = append(b, " more arguments)"...)
			break
		}
		b = resp.AppendQuoted(b, a)
	}
	return append(b, "\r\n"...)
}
