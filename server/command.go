package server

import (
	"errors"

	"limitdb/engine"
	"limitdb/known"
	"limitdb/resp"
	"limitdb/server/audit"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/spec"
	"limitdb/server/table"
	"limitdb/server/values"
)

// row is a row of the command table. The table is the only description of the commands.
type row = handler.Row[call]

// A command is a row in the table, with its subcommands.
type command struct {
	row
	subs    []command
	audited bool // see package audit
}

// newCommand makes the command of a row. Without work, a row is a container or HELP.
func newCommand(r row) command {
	if r.Run == nil && !r.InStep() && r.Rows == nil {
		r.Run = help
	}
	c := command{row: r, subs: make([]command, len(r.Rows))}
	for i, sub := range r.Rows {
		c.subs[i] = newCommand(sub)
	}
	return c
}

// runs reports whether the command can be called by itself: whether it is no container.
func (c *command) runs() bool { return c.Run != nil || c.InStep() }

// commands are the rows of the command table.
type commands struct {
	*table.Table
	rows []*command // by the id of a command
}

// find returns the command of that name, or nil.
func (t *commands) find(name []byte) *command {
	if c := t.Find(name); c != nil {
		return t.rows[c.ID]
	}
	return nil
}

// sub returns c's subcommand of that name, or nil.
func (c *command) sub(name []byte) *command {
	for i := range c.subs {
		if resp.EqualFold(name, c.subs[i].Name) {
			return &c.subs[i]
		}
	}
	return nil
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
		if sub == nil && !c.runs() {
			return c, c.NoSubcommand(args[1])
		}
		if sub != nil {
			c = sub
		}
	}
	if !c.ArityOK(len(args)) || !c.runs() {
		return c, c.WrongArity()
	}
	return c, ""
}

// help lists the subcommands of the container that was called.
func help(c *call) { c.srv.table.Help(c.inner()) }

// A call is one run of a command: everything that a handler receives, and the reply that it
// writes. A session reuses one call. A call may also belong to no client, as in a transaction
// or a script: see runAlone. Handlers of the packages below get only its inner part.
type call struct {
	srv    *Server
	group  *group.Group // which has the command's keys
	client *session     // the client that sent the command; nil: no client
	cmd    *command
	values.Call

	txn      handler.Txn     // of the step that the call has begun
	since    int64           // when the last command of several ended, from which the next one's time counts; 0: it is by itself
	started  int64           // when something long began in a command that is SelfTimed; 0: nothing did
	script   *known.Run      // of the known scripts that the client has run; nil: none yet
	crosses  bool            // the command's keys are in several groups, or have several slots
	here     bool            // with several groups: this node runs the command, whatever it leads
	gathers  bool            // the command concerns groups that other nodes lead
	apart    bool            // with several groups: the command has no key, so no other of its client runs at the same time
	turns    []uint64        // of a command on the keys of all groups: the node's turn in each of Groups, as it began
	only     []byte          // of a command of another node on keys of all groups: the numbers of those that it concerns
	called   []byte          // lines of MONITOR about what a script has called
	changes  []*audit.Change // of the command, and of what it runs, in the audit log, which have not ended
	scripted []*audit.Change // those of changes that scripts make in the step
	replayed int             // how many of them the step has made again, since it began again
}

// newCall returns a call in a group when the process's clock has a time. It replies in a version of the protocol.
func (srv *Server) newCall(g *group.Group, now int64, proto resp.Proto, args [][]byte) call {
	c := call{srv: srv, group: g}
	c.Parts, c.Group, c.Reply.Proto, c.Args = &srv.parts, &g.Group, proto, args
	c.begin(now)
	return c
}

// begin notes when the call's batch begins, by the process's clock.
func (c *call) begin(now int64) { c.Began, c.Now = now, c.group.At(now) }

// inner is what the handlers of the packages below get of a call.
func (c *call) inner() *handler.Call { return &c.Call.Call }

// resolve returns the command that c.Args call, nil if there is none. For a wrong number of arguments, or a subcommand that is not
// there, text is the error.
func (c *call) resolve() (cmd *command, text string) {
	if c.client != nil {
		cmd = c.client.rd.find(c.srv.table, c.Args[0])
	} else {
		cmd = c.srv.table.find(c.Args[0])
	}
	if cmd == nil {
		return nil, ""
	}
	return cmd.resolve(c.Args)
}

// inTransaction runs fn in a step of the engine on keys. If fn returns false, nothing is written. It may run twice. When the
// step is stored, the effects of the commands in it happen.
func (c *call) inTransaction(keys [][]byte, fn func(t *handler.Txn) bool) (ok bool, err error) {
	t := &c.txn
	c.Step = t
	err = c.States().UpdateAt(c.Place, c.Now, keys, func(et *engine.Txn) error {
		t.Begin(et)
		c.replayed = 0
		if t.Cancelled != nil {
			return t.Cancelled
		}
		if ok = fn(t); t.Err != nil {
			return t.Err
		}
		if !ok {
			return errAborted
		}
		return nil
	})
	c.Step = nil
	t.Over(c.inner(), err == nil)
	if t.Counted != nil {
		t.Counted.Flush(c.srv.counts.Stripe(c.Lane), &c.Errors)
		if t.Counted.Large() {
			t.Counted = nil
		}
	}
	c.Spare()
	if err == errAborted {
		return false, nil
	}
	return ok, err
}

// errAborted ends a transaction that writes nothing.
var errAborted = errors.New("server: the transaction is aborted")

// commandKeys returns the keys of the command.
func (c *call) commandKeys() [][]byte {
	if c.cmd.FirstKey == 1 && c.cmd.LastKey == 1 { // most commands
		return c.Args[1:2:2]
	}
	from, to, step := c.cmd.KeyRange(c.Args)
	if step == 1 {
		return c.Args[from:to:to]
	}
	keys := make([][]byte, 0, len(c.Args)/step)
	for i := from; i < to; i += step {
		keys = append(keys, c.Args[i])
	}
	return keys
}

// callable returns the command that args call, nil if there is none or the number of arguments is wrong.
func (t *commands) callable(args [][]byte) *spec.Command {
	cmd, text := t.resolve(args)
	if cmd == nil || text != "" {
		return nil
	}
	return &cmd.Command
}
