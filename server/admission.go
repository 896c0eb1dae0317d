package server

import (
	"bytes"
	"fmt"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/audit"
	"limitdb/server/auth"
	"limitdb/server/spec"
	"limitdb/server/users"
	"limitdb/uplink"
)

// Admission. Whoever sends a command asks admit whether it may run: a client, also for its pipeline and for its transaction, a
// script, an HTTP request, another node's client. Nothing refuses a command but admit, its handler, and what has no room for it.
//
// A pipeline has a fast way: while undisturbed holds, only a command's name, words and key can make admit refuse it, so ahead.go asks only
// about these.

// A phase is what is to become of a command that is admitted.
type phase uint8

const (
	byItself     phase = iota // it runs now
	queued                    // it is kept for EXEC, or runs now if it has the flag spec.Now
	inExec                    // it was queued, and EXEC runs it
	inScript                  // it runs in the step of a script
	inReadScript              // the same, and the script may not write
)

// A verdict is what admit has decided.
type verdict uint8

const (
	admitted verdict = iota
	nonesuch         // there is no such command
	refused          // there is an error
	paused           // it may run when a pause is over: the end of the pause wakes the client
	away             // it may run, but only where the node leads
)

// admit decides about the command that c.Args call, and sets c.cmd, nil if there is none. If it is refused, text is the error to reply with.
func (c *call) admit(p phase, special uint32) (v verdict, text string) {
	if p != inExec {
		c.cmd, text = c.resolve()
	}
	switch {
	case p == inScript, p == inReadScript:
		if text = c.unfitForScript(text, p); text == "" {
			text = c.forbidden(p)
		}
		if text == "" {
			text = checkKeys(c.srv, c.cmd, c.Args)
		}
	case c.cmd == nil:
		return nonesuch, ""
	case text == "":
		text = c.refusal(p, special)
	}
	switch {
	case text != "":
		return refused, text
	case p >= inExec:
		return admitted, ""
	case special&specialPause != 0 && c.held():
		return paused, ""
	case p == queued && c.cmd.Flags&spec.Now == 0:
		if text = c.cmd.unfit(); text == "" && c.cmd.Flags&spec.AllGroups != 0 && c.srv.several() {
			text = errAllGroups
		}
	case p == byItself && special&specialFollowing != 0 && c.cmd.Leads() && !c.here:
		return away, ""
	}
	if text != "" {
		return refused, text
	}
	return admitted, ""
}

// refusal returns the error for a command that may not run whoever runs it, "" if it may.
func (c *call) refusal(p phase, special uint32) string {
	s, cmd := c.client, c.cmd
	if s != nil && !s.authed && cmd.Flags&spec.NoAuth == 0 {
		return errUnauthenticated
	}
	if text := c.forbidden(p); text != "" {
		return text
	}
	if s == nil && cmd.Flags&(spec.Client|spec.Works) == spec.Client {
		return "ERR " + cmd.Full + " needs a connection of its own"
	}
	if text := checkKeys(c.srv, cmd, c.Args); text != "" {
		return text
	}
	if c.subscribed() && !allowedWhileSubscribed(cmd) {
		return fmt.Sprintf(errSubscribed, cmd.Full)
	}
	switch {
	case c.crosses && !spreads(c, p) && (p == byItself || p == queued && cmd.Name != "EXEC"):
		return errCrossSlot
	case special&specialLoading != 0 && cmd.Flags&spec.Loading == 0:
		return errLoading
	case special&specialMisconf != 0 && cmd.Flags&(spec.Write|spec.Quorum) != 0:
		return *c.srv.misconf.Load()
	}
	return ""
}

// forbidden returns the error for a command that the user may not run, "" for others, and notes it in ACL LOG.
func (c *call) forbidden(p phase) string {
	r := c.Rights
	if r == nil {
		return ""
	}
	d := r.Check(&c.cmd.Command, c.Args)
	if d.Reason == users.Allowed {
		return ""
	}
	c.denied(d, p)
	return d.Text(r.Name, p >= inScript)
}

// denied counts a denial and notes it in ACL LOG.
func (c *call) denied(d users.Denial, p phase) {
	c.srv.counters.denials[d.Reason].Add(1)
	context := "toplevel"
	switch p {
	case queued, inExec:
		context = "multi"
	case inScript, inReadScript:
		context = "lua"
	}
	c.note(auth.Event{Reason: d.Reason, Context: context, Object: d.Name(), User: c.Rights.Name})
}

// note notes an event in ACL LOG.
func (c *call) note(e auth.Event) {
	e.Client = "addr=" + httpAddr + " user=" + e.User
	if c.client != nil {
		e.Client = string(c.client.pub.AppendLine(nil, c.Began))
	}
	c.srv.auth.Log.Note(e, c.Began)
}

// allows reports whether a user may run the command on one key.
func (c *command) allows(r *users.Rights, key []byte, how spec.Access) bool {
	return r.MayRun(&c.Command) && r.MayUse(key, how)
}

// beginChange writes to the audit log that the command is to change something, in one of the ways there. It returns the error if the log is strict and cannot be
// written, "" otherwise. It comes last, when nothing else refuses the command.
func beginChange(c *call, way string) (text string) {
	log := c.srv.opts.Audit
	if !c.cmd.audited || log == nil || !audit.Changes(c.cmd.Full, c.Args) {
		return ""
	}
	what := audit.What{From: c.From(), Way: way, Command: c.cmd.Full, Args: c.srv.redact.Args(&c.cmd.Command, c.Args)}
	if c.Step == nil { // a step holds locks that looking at the engine takes
		what.View = c.srv.audited.Of(c.cmd.Full, c.Args)
	}
	ch, err := log.Begin(c.Began, &what)
	if err != nil {
		return "MISCONF the audit log cannot be written, so nothing is changed (audit-log-strict): " + resp.Excerpt([]byte(spec.Plain(err)))
	}
	c.changes = append(c.changes, ch)
	return ""
}

// endChanges writes how the changes of the command have ended, which has replied with out.
func endChanges(c *call, out []byte) {
	result := "OK"
	if c.Failed && len(out) > 0 {
		first, _, _ := bytes.Cut(out[1:], []byte("\r\n"))
		result = resp.Excerpt(first)
	}
	for _, ch := range c.changes {
		ch.End(c.Began, result)
	}
	c.changes, c.scripted, c.replayed = nil, nil, 0
}

// held reports whether a pause holds the command back.
func (c *call) held() bool {
	if c.client == nil {
		return c.srv.pause.Stops(&c.cmd.Command)
	}
	return c.srv.pause.Holds(c.client.conn, &c.cmd.Command)
}

// unfit returns the error for a command that cannot be part of a transaction, "" for others.
func (c *command) unfit() string {
	switch {
	case c.Name == "MONITOR": // an error of its own, in EXEC
		return ""
	case c.Flags&spec.NoMulti != 0, c.Flags&spec.Client != 0 && c.Flags&spec.Admin != 0: // they may take their time
		return "ERR Command not allowed inside a transaction"
	case !c.InStep() && c.Flags&(spec.Write|spec.Readonly|spec.Blocking) != 0:
		return "ERR " + c.Full + " cannot be part of a transaction"
	}
	return ""
}

// unfitForScript returns the error for a command that a script may not run, "" for others. wrong is that of resolve.
func (c *call) unfitForScript(wrong string, p phase) string {
	cmd := c.cmd
	switch {
	case cmd == nil, wrong != "" && len(c.Args) > 1 && len(cmd.subs) > 0:
		return "ERR Unknown Redis command called from script"
	case wrong != "":
		return "ERR Wrong number of args calling Redis command from script"
	case cmd.Group == "scripting", !cmd.InStep() && cmd.Flags&spec.Script == 0 && cmd.Name != "WAIT":
		return "ERR This Redis command is not allowed from script"
	case cmd.Flags&spec.AllGroups != 0 && c.srv.several():
		return errAllGroups
	case p == inReadScript && (cmd.Flags&spec.Write != 0 || cmd.Group == "pubsub"):
		return "ERR Write commands are not allowed from read-only scripts."
	}
	return ""
}

// subscribed reports whether the client has subscriptions and cannot tell replies from messages.
func (c *call) subscribed() bool {
	return c.client != nil && c.client.subs.Len() > 0 && c.Proto == resp.RESP2
}

// checkKeys returns the error for the keys of a command, "" if they are good.
func checkKeys(srv *Server, cmd *command, args [][]byte) (text string) {
	if !cmd.HasKeys() {
		return ""
	}
	most := int(srv.set.MaxKeyLen.Get())
	if cmd.FirstKey > 0 && cmd.LastKey == cmd.FirstKey {
		return cmd.checkKey(args[cmd.FirstKey], most)
	}
	cmd.Keys(args, func(i int) {
		if wrong := cmd.checkKey(args[i], most); wrong != "" {
			text = wrong
		}
	})
	return text
}

// checkKey returns the error for a key of more than most bytes, which is max-key-len, and for the key of a rule's caller, which may be
// read, but only rules change it.
func (c *command) checkKey(key []byte, most int) string {
	switch {
	case len(key) > most:
		return errKeyTooLong
	case c.Flags&spec.Readonly == 0 && rules.IsKey(key):
		return errKeyOfRule
	}
	return ""
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
func (p *peer) mayBegin() bool {
	return p.far == nil || p.far.Leased() || !p.life.Drain(uplink.ErrNoLease)
}

// spreads reports whether the command of a call asks several groups.
func spreads(c *call, p phase) bool {
	return c.crosses && p == byItself && c.cmd.Flags&spec.Across != 0
}
