package server

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"limitdb/resp"
	"limitdb/server/clients"
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
	set map[*clients.Client]bool
}

// add makes s a monitor, and reports whether there was room for it. It calls ready before it
// gives s the first line.
func (m *monitors) add(s *clients.Client, ready func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.set) >= maxMonitors && !m.set[s] {
		return false
	}
	ready()
	m.set[s] = true
	m.srv.setSpecial(specialMonitor, true)
	s.Monitor.Store(true)
	return true
}

func (m *monitors) remove(s *clients.Client) {
	m.mu.Lock()
	delete(m.set, s)
	m.srv.setSpecial(specialMonitor, len(m.set) > 0)
	m.mu.Unlock()
	s.Monitor.Store(false)
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
		from = s.pub.Addr()
		if local := s.conn.LocalAddr(); clients.IsUnix(local) {
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
		if c.client != nil && to == &c.client.pub { // after the reply
			c.Out = append(c.Out, lines...)
			continue
		}
		to.Deliver(lines)
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

// redactedText replaces a secret.
const redactedText = "(redacted)"

// redaction replaces arguments in a copy.
type redaction struct {
	args   [][]byte
	copied bool
}

// hide replaces args[from:to].
func (r *redaction) hide(from, to int) {
	if to = min(to, len(r.args)); from < to && !r.copied {
		r.args, r.copied = slices.Clone(r.args), true
	}
	for i := from; i < to; i++ {
		r.args[i] = []byte(redactedText)
	}
}

// redact returns args with secrets replaced, for MONITOR and the slow log. It does not change
// args, and returns args itself if it holds no secret. Where a client gives a secret, redact shows only what it understands: a
// word that is misspelt or left out must not make it show the secret.
func (srv *Server) redact(cmd *command, args [][]byte) [][]byte {
	r := redaction{args: args}
	switch cmd.Full {
	case "auth":
		r.hide(1, len(args))
	case "hello":
		r.hello()
	case "config|set":
		srv.redactConfig(&r)
	case "command|getkeys", "command|getkeysandflags":
		srv.redactInner(&r, 2)
	case "eval", "eval_ro":
		r.script(1)
	case "script|load":
		r.script(2)
	default:
		named := secretNames()
		if cmd.Group == "connection" || cmd.Group == "server" { // elsewhere, these words may be data
			named = append(named, "auth", "auth2", "pass", "password")
		}
		for i := 1; i < len(args); i++ {
			if isAnyOf(args[i], named) {
				r.hide(i+1, len(args))
				break
			}
		}
	}
	return r.args
}

// secretNames returns the names of directives that hold secrets, here or in Redis. (registry.Secret would look up every
// argument of every command.)
func secretNames() []string {
	return []string{"requirepass", "http-password", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"}
}

func isAnyOf(word []byte, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(n) == len(word) && resp.EqualFold(word, n) })
}

// hello shows the version, and SETNAME with its name.
func (r *redaction) hello() {
	for i := 1; i < len(r.args); {
		_, version := resp.ParseInt(r.args[i])
		switch {
		case resp.EqualFold(r.args[i], "AUTH"):
			r.hide(i+1, i+3)
			i += 3
		case resp.EqualFold(r.args[i], "SETNAME"):
			i += 2
		case i == 1 && version && len(r.args[i]) == 1:
			i++
		default:
			r.hide(i, i+1)
			i++
		}
	}
}

// redactConfig shows the directives that hold no secret, and their values. A value that is the name of one that does
// counts as a name: the client may have left out the value before it.
func (srv *Server) redactConfig(r *redaction) {
	secret := func(i int) bool { return i < len(r.args) && srv.registry.Secret(string(r.args[i])) }
	for i := 2; i < len(r.args); {
		switch {
		case secret(i):
			r.hide(i+1, i+2)
			i += 2
		case srv.registry.Known(string(r.args[i])):
			if i++; !secret(i) {
				i++
			}
		default:
			r.hide(i, i+2)
			i += 2
		}
	}
}

// redactInner redacts the command that begins at from.
func (srv *Server) redactInner(r *redaction, from int) {
	if len(r.args) <= from {
		return
	}
	inner, text := srv.table.resolve(r.args[from:])
	if inner == nil || text != "" || inner.Parent != nil && inner.Parent.Name == "COMMAND" {
		r.hide(from+1, len(r.args))
		return
	}
	if got := srv.redact(inner, r.args[from:]); len(got) > 0 && &got[0] != &r.args[from] {
		r.args = append(slices.Clone(r.args[:from]), got...)
	}
}

// script hides a script that goes with a secret, and its arguments.
func (r *redaction) script(at int) {
	if callsSecrets(r.args[at]) {
		r.hide(at, len(r.args))
	}
}

// callsSecrets reports whether a script names a command or a directive that goes with a secret, such as redis.call('AUTH', …).
func callsSecrets(text []byte) bool {
	text = bytes.ToLower(text)
	return slices.ContainsFunc(append(secretNames(), "auth", "hello"), func(name string) bool {
		for rest := text; ; {
			i := bytes.Index(rest, []byte(name))
			if i < 0 {
				return false
			}
			after := i + len(name)
			quoted := i > 0 && after < len(rest) && rest[i-1] == rest[after] && (rest[after] == '\'' || rest[after] == '"')
			if quoted || i > 1 && rest[i-1] == '[' && after < len(rest) && rest[after] == ']' {
				return true
			}
			rest = rest[after:]
		}
	})
}
