package server

import (
	"fmt"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/handler"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// The gate decides which client may run which command, and when. Every command passes admits,
// except those that run while mayQueue holds, when nothing can hold them up.

// Reasons to check a command further, one bit each, so that one atomic load covers all of them.
const (
	specialMonitor uint32 = 1 << iota
	specialPause
	specialTimeEach  // time every command individually, for a low slowlog threshold
	specialLoading   // the state is being loaded
	specialMisconf   // the log cannot be written
	specialFollowing // another node decides
)

func (srv *Server) setSpecial(bit uint32, on bool) {
	if on {
		srv.special.Or(bit)
	} else {
		srv.special.And(^bit)
	}
}

// admits reports whether cmd may run now. If not, it has replied with the reason, or holds
// the command back until a pause is over.
func (s *session) admits(cmd *command, args [][]byte, special uint32) bool {
	c := &s.call
	c.cmd, c.Args = cmd, args
	if text := c.refusal(special); text != "" {
		s.reject(cmd, text)
		return false
	}
	if special&specialPause != 0 && s.srv.pause.holds(s, cmd) {
		s.holdBack(args)
		return false
	}
	return true
}

// refusal returns the error for a command that may not run, "" if it may.
func (c *call) refusal(special uint32) string {
	s, cmd := c.client, c.cmd
	if s != nil && !s.authed && cmd.Flags&spec.NoAuth == 0 {
		return errUnauthenticated
	}
	if s == nil && cmd.Flags&spec.Client != 0 {
		return "ERR " + cmd.Full + " needs a connection of its own"
	}
	if cmd.HasKeys() {
		if text := c.srv.checkKeys(cmd, c.Args); text != "" {
			return text
		}
	}
	if c.subscribed() && !allowedWhileSubscribed(cmd) {
		return fmt.Sprintf(errSubscribed, cmd.Full)
	}
	switch {
	case special&specialLoading != 0 && cmd.Flags&spec.Loading == 0:
		return errLoading
	case special&specialMisconf != 0 && cmd.Flags&spec.Write != 0:
		return *c.srv.misconf.Load()
	case s == nil && special&specialFollowing != 0 && cmd.Leads(): // a session has been asked before
		return c.elsewhere()
	}
	return ""
}

// subscribed reports whether the client has subscriptions and cannot tell replies from messages.
func (c *call) subscribed() bool {
	return c.client != nil && c.client.subs.Len() > 0 && c.Proto == resp.RESP2
}

// checkKeys checks every key against max-key-len. The keys of rules' callers may be read, but only rules
// change them.
func (srv *Server) checkKeys(cmd *command, args [][]byte) (text string) {
	most := int(srv.set.MaxKeyLen.Get())
	check := func(key []byte) {
		switch {
		case len(key) > most:
			text = errKeyTooLong
		case cmd.Flags&spec.Readonly == 0 && rules.IsKey(key):
			text = errKeyOfRule
		}
	}
	if cmd.FirstKey > 0 && cmd.LastKey == cmd.FirstKey {
		check(args[cmd.FirstKey])
		return text
	}
	cmd.Keys(args, func(i int) { check(args[i]) })
	return text
}

// allowedWhileSubscribed reports whether a RESP2 client that has subscriptions may run cmd.
func allowedWhileSubscribed(cmd *command) bool {
	if cmd.Parent != nil {
		return false
	}
	switch cmd.Name {
	case "PING", "QUIT", "RESET",
		"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		return true
	}
	return false
}

// mayBegin reports whether the client may begin a command: whether another node's client still waits for its reply. If not, the
// session ends once it has sent the replies that it owes. A batch asks once, because it ends after a turn.
func (s *session) mayBegin() bool {
	return s.far == nil || s.far.Leased() || !s.life.Drain(uplink.ErrNoLease)
}

// holdBack parks the session with a copy of the command until the pause ends.
func (s *session) holdBack(args [][]byte) {
	s.held = handler.CloneArgs(args)
	s.pub.argMemory.Store(handler.ArgBytes(args))
	s.park(func() bool {
		args := s.held
		if cmd := s.srv.table.find(args[0]); cmd != nil && s.srv.pause.holds(s, cmd) {
			return false
		}
		if !s.mayBegin() {
			return false
		}
		s.held, s.state = nil, running
		s.pub.argMemory.Store(0)
		s.execute(args)
		// Executing may have parked the session again, for a reason of its own.
		return s.state == running
	})
}

// mayQueue reports whether nothing but the command itself can make refusal refuse it, so that
// commands run one after the other.
func (s *session) mayQueue() bool {
	return s.authed && s.replies == replyOn && !s.caching() && s.subs.Len() == 0 && s.srv.special.Load()|s.early == 0 && s.multi == nil
}
