package server

import (
	"fmt"
	"strconv"
	"sync"

	"limitdb/resp"
)

const (
	// maxMonitors is the most clients that may monitor at once. The client whose command runs
	// spends its turn on writing to all of them.
	maxMonitors = 32
	// monitorLine is the length, in bytes, after which a line has no further argument.
	monitorLine = 4 << 10
)

// monitors are the clients that have sent MONITOR. The server sends them each command that runs.
type monitors struct {
	srv *Server
	mu  sync.Mutex // guards set
	set map[*session]bool
}

// add makes s a monitor, and reports whether there was room for it. It calls ready before it
// gives s the first line.
func (m *monitors) add(s *session, ready func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.set) >= maxMonitors && !m.set[s] {
		return false
	}
	ready()
	m.set[s] = true
	m.srv.setSpecial(specialMonitor, true)
	s.pub.monitor.Store(true)
	return true
}

func (m *monitors) remove(s *session) {
	m.mu.Lock()
	delete(m.set, s)
	m.srv.setSpecial(specialMonitor, len(m.set) > 0)
	m.mu.Unlock()
	s.pub.monitor.Store(false)
}

func (m *monitors) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.set)
}

// feed sends a line such as
//
//	+1339518083.107412 [0 127.0.0.1:60866] "cl.throttle" "user123" "15" "30" "60"
//
// to every monitor, with secrets left out.
func (m *monitors) feed(c *call, cmd *command, args [][]byte) {
	m.send(c, append(m.line(nil, c, cmd, args), c.called...))
	c.called = nil
}

// line appends the line of a command that has run.
func (m *monitors) line(b []byte, c *call, cmd *command, args [][]byte) []byte {
	from, s := directAddr, c.client
	if s != nil {
		from = s.addr()
		if local := s.conn.LocalAddr(); isUnix(local) {
			from = "unix:" + local.String()
		}
	}
	return m.lineFrom(b, from, c.Now, cmd, args)
}

func (m *monitors) lineFrom(b []byte, from string, now int64, cmd *command, args [][]byte) []byte {
	b = fmt.Appendf(b, "+%d.%06d [0 %s]", now/1e9, now/1e3%1e6, from)
	return append(appendMonitored(b, m.srv.redact(cmd, args)), "\r\n"...)
}

// send sends lines to every monitor.
func (m *monitors) send(c *call, lines []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for to := range m.set {
		if to == c.client { // after the reply
			c.Out = append(c.Out, lines...)
			continue
		}
		to.deliver(lines)
	}
}

// appendMonitored appends arguments to a line. If there are too many, it notes how many are
// left out.
func appendMonitored(line []byte, args [][]byte) []byte {
	begin := len(line)
	for i, a := range args {
		line = append(line, ' ')
		if len(line)-begin > monitorLine {
			line = append(line, "... ("...)
			line = strconv.AppendInt(line, int64(len(args)-i), 10)
			return append(line, " more arguments)"...)
		}
		line = resp.AppendQuoted(line, a)
	}
	return line
}

// deliver sends b, which is not a reply, to the client. Any goroutine may call it.
func (s *session) deliver(b []byte) {
	s.conn.Write(b)
	unsent := s.conn.Pending()
	if unsent == 0 {
		return
	}
	if s.charge(); unsent > s.OutputLimit() {
		s.conn.Close(errOutput)
	}
}
