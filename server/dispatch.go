package server

import (
	"bytes"
	"strings"

	"limitdb/resp"
	"limitdb/server/spec"
)

// execute runs one command, and applies CLIENT REPLY and CLIENT CACHING to it.
func (s *session) execute(args [][]byte) {
	caching := s.caching()
	var keys [][]byte
	if caching {
		keys = s.readBy(args)
	}
	if s.replies == replyOn {
		s.executeOne(args)
	} else {
		s.executeSilenced(args)
	}
	if caching && s.caching() && !s.holds() {
		s.invalidate(args[0], keys)
	}
}

// executeSilenced runs one command and drops its reply, unless it is CLIENT REPLY ON.
func (s *session) executeSilenced(args [][]byte) {
	s.kept = len(s.call.Out)
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
	s.call.Out = s.call.Out[:min(s.kept, len(s.call.Out))]
	s.mute = s.pending != nil
}

func (s *session) executeOne(args [][]byte) {
	c, special, p := &s.call, s.srv.special.Load()|s.early, byItself
	if s.inMulti() {
		p = queued
	}
	c.Args = args
	v, text := c.admit(p, special)
	cmd := c.cmd
	if v != away && s.postpone(args) {
		return
	}
	switch v {
	case nonesuch:
		s.unknown(args)
		return
	case refused:
		if crossProtocol(args) {
			s.closeCrossProtocol(args)
		} else {
			s.reject(cmd, text)
		}
		return
	case paused:
		s.holdBack(args)
		return
	case away:
		s.elsewhere(cmd, args, special)
		return
	}
	if p == queued {
		if cmd.Flags&spec.Now == 0 {
			s.enqueue(cmd, args)
			return
		}
		if special&specialFollowing != 0 && s.execElsewhere(cmd, args) {
			return
		}
	}
	s.invoke(cmd, args, special)
}

// find returns the command of that name, or nil. A pipeline usually repeats one command, so
// find compares the last one first.
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

// unknown replies to a command that there is not.
func (s *session) unknown(args [][]byte) {
	s.breaks()
	if text := s.tooLarge(args); text != "" {
		s.call.Fail(text)
		return
	}
	s.srv.counters.unknown.Add(1)
	if crossProtocol(args) {
		s.closeCrossProtocol(args)
		return
	}
	s.call.Fail(s.srv.unknownCommand(args))
}

// resolve returns the command or subcommand that args call, and nil if there is no such command.
func (t *commands) resolve(args [][]byte) (cmd *command, text string) {
	if cmd = t.find(args[0]); cmd == nil {
		return nil, ""
	}
	return cmd.resolve(args)
}

// resolve returns the command or subcommand that args call; args begin with c's name. If
// there is none, or the number of arguments is wrong, text is the error to reply with.
func (c *command) resolve(args [][]byte) (cmd *command, text string) {
	if len(c.subs) > 0 && len(args) > 1 {
		sub := c.sub(args[1])
		if sub == nil && c.Run == nil {
			return c, c.NoSubcommand(args[1])
		}
		if sub != nil {
			c = sub
		}
	}
	if !c.ArityOK(len(args)) || c.Run == nil {
		return c, c.WrongArity()
	}
	return c, ""
}

// closeCrossProtocol closes the connection of a client that speaks another protocol.
func (s *session) closeCrossProtocol(args [][]byte) {
	s.srv.counters.crossProtocol.Add(1)
	s.srv.log.Warn("the connection is closed: an HTTP request came to the RESP port", "addr", s.addr(), "line", logged(args[0]))
	s.call.Out = s.call.Out[:0]
	s.conn.Close(errCross)
}

// unknownCommand returns the reply to an unknown command, in Redis' words.
func (srv *Server) unknownCommand(args [][]byte) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '")
	b.WriteString(resp.Excerpt(args[0]))
	b.WriteString("', with args beginning with: ")
	for _, a := range args[1:] {
		if b.Len() > 256 {
			break
		}
		b.WriteString("'" + resp.Excerpt(a) + "' ")
	}
	return spec.Aside(b.String(), srv.table.Hint(args[0]))
}

// crossProtocol reports whether args look like HTTP. No client library sends these words.
func crossProtocol(args [][]byte) bool {
	switch {
	case resp.EqualFold(args[0], "POST"), resp.EqualFold(args[0], "HOST:"):
		return true
	case resp.EqualFold(args[0], "GET"), resp.EqualFold(args[0], "HEAD"), resp.EqualFold(args[0], "PUT"):
		return len(args) == 3 && bytes.HasPrefix(args[2], []byte("HTTP/"))
	}
	return false
}

// reject replies with an error instead of running the command.
func (s *session) reject(cmd *command, text string) {
	s.breaks()
	s.stripe.Reject(cmd.ID)
	s.call.Fail(text)
}
