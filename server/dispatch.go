package server

import (
	"bytes"
	"fmt"
	"strings"
	"unsafe"

	"limitdb/resp"
)

// Reasons to leave the straight path, one bit each, so that a command pays
// one atomic load for all of them.
const (
	specialMonitor uint32 = 1 << iota
	specialPause
	specialTimeEach // time every command by itself, for a low slowlog threshold
	specialLoading  // the state is being loaded
	specialMisconf  // the log cannot be written
)

// execute runs one command, with what CLIENT REPLY and CLIENT CACHING have said about it.
func (s *session) execute(args [][]byte) {
	caching := s.caching()
	if s.replies == replyOn {
		s.executeOne(args)
	} else {
		s.executeSilenced(args)
	}
	if caching && s.caching() && s.held == nil {
		s.invalidate(args)
	}
}

// executeSilenced runs one command and drops its reply, unless it is CLIENT REPLY ON.
func (s *session) executeSilenced(args [][]byte) {
	mark := len(s.out)
	if s.replies == replySkip {
		s.replies = replySkipping
	}
	s.executeOne(args)
	switch s.replies {
	case replyOn: // the command was CLIENT REPLY ON, or RESET
		return
	case replySkipping:
		s.replies = replyOn
	}
	s.out = s.out[:min(mark, len(s.out))]
	s.mute = s.resume != nil
}

// resumed calls resume, and drops the reply of a parked command that CLIENT REPLY
// has silenced. It reports whether the command has finished.
func (s *session) resumed() bool {
	mark := len(s.out)
	s.failed = false
	done := s.resume()
	if cmd := s.pub.lastCmd.Load(); cmd != nil {
		s.tell(cmd, mark)
	}
	if s.mute {
		s.out = s.out[:min(mark, len(s.out))]
		s.mute = !done
	}
	if done {
		s.out = append(s.out, s.after...)
		s.after = nil
	}
	return done
}

func (s *session) executeOne(args [][]byte) {
	cmd := s.lookup(args)
	if cmd == nil {
		s.srv.counters.unknown.Add(1)
		return
	}
	if !s.authed && cmd.flags&flagNoAuth == 0 {
		s.reject(cmd, errUnauthenticated)
		return
	}
	if cmd.hasKeys() {
		if text := s.checkKeys(cmd, args); text != "" {
			s.reject(cmd, text)
			return
		}
	}
	if s.subs.count > 0 && s.proto == resp.RESP2 && !allowedWhileSubscribed(cmd) {
		s.reject(cmd, fmt.Sprintf(errSubscribed, cmd.fullName()))
		return
	}
	special := s.srv.special.Load() | s.early
	if special&(specialLoading|specialMisconf) != 0 {
		if text := s.srv.refusal(cmd, special); text != "" {
			s.reject(cmd, text)
			return
		}
	}
	if special&specialPause != 0 && s.srv.pause.holds(s, cmd) {
		s.holdBack(args)
		return
	}
	s.call(cmd, args, special)
	// Afterwards, as Redis does: RESET ends its client's MONITOR first.
	if special&specialMonitor != 0 && cmd.flags&flagSkipMonitor == 0 {
		s.srv.monitors.feed(s, cmd, args)
	}
}

// call runs cmd and counts it.
func (s *session) call(cmd *command, args [][]byte, special uint32) {
	s.failed = false
	mark := len(s.out)
	if cmd != s.pub.lastCmd.Load() {
		s.pub.lastCmd.Store(cmd)
	}
	if cmd.flags&flagFast != 0 && special&specialTimeEach == 0 {
		cmd.run(s, args)
		s.tell(cmd, mark)
		if s.stepping != nil {
			s.stepping.args = cutArgs(s.srv.redact(cmd, args))
			return
		}
		if !s.tally.add(cmd, s.failed) {
			s.settle()
			s.tally.add(cmd, s.failed)
		}
	} else {
		start := s.srv.clock.Now()
		cmd.run(s, args)
		s.tell(cmd, mark)
		if s.stepping != nil {
			s.stepping.args = cutArgs(s.srv.redact(cmd, args))
			return
		}
		took := s.srv.clock.Now() - start
		s.slow += took
		s.stripe.record(cmd, took, s.failed)
		s.srv.slowlog.offer(s, cmd, args, took)
		if special&specialTimeEach != 0 {
			s.srv.offerLatency(cmd, s.now, took)
		}
	}
}

// find returns the command of that name, or nil. Pipelines are mostly of one
// command, so the last one is compared first.
func (s *session) find(name []byte) *command {
	if s.last != nil && bytes.Equal(name, s.lastName) {
		return s.last
	}
	cmd := s.srv.table.find(name)
	if cmd != nil {
		s.last, s.lastName = cmd, append(s.lastName[:0], name...)
	}
	return cmd
}

// lookup finds the command and checks its arity; it replies with the error
// and returns nil where it cannot.
func (s *session) lookup(args [][]byte) *command {
	cmd := s.find(args[0])
	if cmd == nil {
		s.unknownCommand(args)
		return nil
	}
	if len(cmd.subs) > 0 && len(args) > 1 {
		sub := cmd.sub(args[1])
		if sub == nil && cmd.run == nil {
			s.reject(cmd, cmd.noSubcommand(args[1]))
			return nil
		}
		if sub != nil {
			cmd = sub
		}
	}
	if !cmd.arityOK(len(args)) || cmd.run == nil {
		s.reject(cmd, cmd.wrongArity())
		return nil
	}
	return cmd
}

// unknownCommand answers as Redis does; other protocols' first words close the connection.
func (s *session) unknownCommand(args [][]byte) {
	if crossProtocol(args) {
		s.srv.counters.crossProtocol.Add(1)
		s.srv.log.Warn("an HTTP request on the RESP port: the connection is closed", "addr", s.addr(), "line", logged(args[0]))
		s.out = s.out[:0]
		s.conn.Close(errCross)
		return
	}
	var b strings.Builder
	b.WriteString("ERR unknown command '")
	b.WriteString(plainCut(args[0]))
	b.WriteString("', with args beginning with: ")
	for _, a := range args[1:] {
		if b.Len() > 256 {
			break
		}
		b.WriteString("'" + plainCut(a) + "' ")
	}
	s.fail(aside(b.String(), s.srv.table.commandHint(args[0])))
}

// crossProtocol recognises HTTP: no client library sends these words.
func crossProtocol(args [][]byte) bool {
	switch {
	case foldEqual(args[0], "POST"), foldEqual(args[0], "HOST:"):
		return true
	case foldEqual(args[0], "GET"), foldEqual(args[0], "HEAD"), foldEqual(args[0], "PUT"):
		return len(args) == 3 && bytes.HasPrefix(args[2], []byte("HTTP/"))
	}
	return false
}

// plainCut is client bytes inside single quotes: escaped and cut at 128 bytes.
func plainCut(b []byte) string {
	q := quoted(b)
	if len(q) >= 2 && q[0] == '"' {
		i := strings.LastIndexByte(q, '"')
		return q[1:i] + q[i+1:]
	}
	return q
}

// checkKeys holds every key against max-key-len.
func (s *session) checkKeys(cmd *command, args [][]byte) string {
	most := int(s.srv.set.MaxKeyLen.Get())
	if cmd.firstKey > 0 && cmd.lastKey == cmd.firstKey {
		if len(args[cmd.firstKey]) > most {
			return errKeyTooLong
		}
		return ""
	}
	text := ""
	cmd.keys(args, func(i int) {
		if len(args[i]) > most {
			text = errKeyTooLong
		}
	})
	return text
}

// allowedWhileSubscribed names what a RESP2 client may say while its replies
// could not be told from messages.
func allowedWhileSubscribed(cmd *command) bool {
	if cmd.parent != nil {
		return false
	}
	switch cmd.name {
	case "PING", "QUIT", "RESET",
		"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		return true
	}
	return false
}

// reject answers with an error before the command has run.
func (s *session) reject(cmd *command, text string) {
	s.stripe.commands[cmd.id].rejected.Add(1)
	s.fail(text)
}

// holdBack parks the session with a copy of the command until the pause ends.
func (s *session) holdBack(args [][]byte) {
	held, size := make([][]byte, len(args)), 0
	for i, a := range args {
		held[i] = bytes.Clone(a)
		size += len(a) + int(unsafe.Sizeof(a))
	}
	s.held = held
	s.pub.argMemory.Store(int64(size))
	s.park(func() bool {
		args := s.held
		if cmd := s.srv.table.find(args[0]); cmd != nil && s.srv.pause.holds(s, cmd) {
			return false
		}
		s.held, s.resume = nil, nil
		s.pub.argMemory.Store(0)
		s.execute(args)
		// Executing may have parked the session again, for a reason of its own.
		return s.resume == nil
	})
}
