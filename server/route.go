package server

import (
	"bytes"
	"strconv"

	"limitdb/groups"
	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// Which group has the keys of a command. With one group, nobody asks.
//
// All keys of a command must have the same slot, and so those of a transaction and of a script. A command that finds its keys by rules, or
// decides on several limits, needs keys of one group. What names no key belongs to the first group, which has the rules and the users,
// or concerns the keys of all groups.

// several reports whether the keys are divided among several groups.
func (srv *Server) several() bool { return len(srv.keyed) > 1 }

// groupOf returns the group that has a key.
func (srv *Server) groupOf(key []byte) *group.Group {
	return srv.every[groups.Of(resp.Slot(key), len(srv.keyed))]
}

// enter makes g the group of the call's command.
func (c *call) enter(g *group.Group) {
	c.group, c.Group = g, &g.Group
	c.Now = g.At(c.Began)
}

// enter makes g the group of the session's next command. If the node began to lead it after the batch began, it leads only in the next batch.
func enter(s *session, g *group.Group) {
	if s.in == g {
		return
	}
	s.in = g
	s.call.enter(g)
	s.early &^= specialFollowing
	if s.beginTurn(); g.Since.Load() > s.call.Began {
		s.early |= specialFollowing
	}
}

// choose returns the group of the command that c.Args call, and notes in crosses if there is none because its keys are in several. It admits
// nothing: a command that will be refused has any group.
func choose(c *call) *group.Group {
	srv, s := c.srv, c.client
	c.crosses, c.here, c.gathers, c.apart, c.Groups = false, false, false, true, nil
	cmd, text := c.resolve()
	if cmd == nil || text != "" || s != nil && !s.authed {
		return srv.group
	}
	c.here = cmd.anywhere()
	slot := group.NoSlot
	switch {
	case s != nil && s.multi.isOpen() && cmd.Name == "EXEC":
		slot = slotOfMulti(c, s.multi)
	case cmd.Flags&spec.Across != 0 && (s == nil || !s.multi.isOpen()):
		return chooseAcross(c, cmd)
	case cmd.HasKeys():
		if cmd.Flags&spec.Watch != 0 && s != nil {
			slot = s.multi.watchedSlot()
		}
		slot = cmd.slot(slot, c.Args)
	case cmd.Flags&spec.AllGroups != 0:
		return chooseAll(c, cmd)
	case cmd.Full == "cluster|countkeysinslot":
		if n, ok := resp.ParseInt(c.Args[2]); ok && n >= 0 && n < resp.Slots {
			slot = int(n)
		}
	}
	switch {
	case slot == group.ManySlots:
		c.crosses = true
		return srv.group
	case slot != group.NoSlot:
		c.apart = false
		return srv.every[groups.Of(slot, len(srv.keyed))]
	case cmd.Flags&spec.MovableKeys != 0: // a script without keys
		return anyLed(srv)
	}
	return srv.group
}

// slot returns the slot of the command's keys, and of others that have one.
func (c *command) slot(slot int, args [][]byte) int {
	c.Keys(args, func(i int) { slot = group.WithKey(slot, args[i]) })
	return slot
}

// anyLed returns a group that this node leads, if there is one.
func anyLed(srv *Server) *group.Group {
	for _, g := range srv.keyed {
		if g.Leads() {
			return g
		}
	}
	return srv.group
}

// chooseAcross is choose for a command whose keys may have several slots.
func chooseAcross(c *call, cmd *command) *group.Group {
	if cmd.HasKeys() {
		var keys [][]byte
		cmd.Keys(c.Args, func(i int) { keys = append(keys, c.Args[i]) })
		return common(c, keys)
	}
	leave(c)
	c.cmd = cmd
	p, text := cmd.Prepare(c)
	if text != "" {
		return anyLed(c.srv) // which says so
	}
	defer p.Free()
	return common(c, p.Keys())
}

// leave makes no group of keys that of the call.
func leave(c *call) {
	if c.enter(c.srv.group); c.client != nil {
		c.client.in = nil
	}
}

// lacks reports whether another group than the call's has a key.
func (c *call) lacks(key []byte) bool { return c.srv.several() && c.srv.groupOf(key) != c.group }

// common returns the group that has keys, and notes in crosses if there is none.
func common(c *call, keys [][]byte) (g *group.Group) {
	for _, key := range keys {
		switch of := c.srv.groupOf(key); g {
		case nil, of:
			g = of
		default:
			c.crosses, c.here = true, true // any node asks the groups
			return c.srv.group
		}
	}
	if g == nil {
		return anyLed(c.srv)
	}
	c.apart = false
	return g
}

// chooseAll is choose for a command on the keys of all groups. A client that knows clusters asks every node, and adds up: each shows it the
// groups that it leads. For others, and for what is known of a caller of a rule, the groups that other nodes lead are gathered, but SCAN goes on from
// group to group.
func chooseAll(c *call, cmd *command) *group.Group {
	srv, s := c.srv, c.client
	c.Groups = make([]*handler.Group, len(srv.keyed))
	defer noteTurns(c)
	if cmd.Name == "SCAN" && !(s != nil && s.redirected()) {
		n, _ := strconv.ParseUint(string(c.Args[1]), 10, 64) // SCAN says what is wrong
		if n &= 1<<handler.GroupBits - 1; n < uint64(len(srv.keyed)) {
			c.Groups[n] = &srv.keyed[n].Group
			return srv.keyed[n]
		}
	}
	if c.only != nil {
		for number := range bytes.SplitSeq(c.only, []byte(",")) {
			n, ok := resp.ParseInt(number)
			if !ok || n < 1 || n > int64(len(srv.keyed)) || !srv.every[n].Leads() {
				c.here = false
				return notLed(srv)
			}
			c.Groups[n-1] = &srv.every[n].Group
		}
		c.here = true
		return srv.group
	}
	for i, g := range srv.keyed {
		if g.Leads() && g.Since.Load() <= c.Began {
			c.Groups[i] = &g.Group
		} else if s == nil || cmd.Parent != nil || !s.redirected() {
			c.gathers = true
		}
	}
	c.here = true
	return srv.group
}

// noteTurns notes the node's turn in each group that the command concerns, before it runs. It may run in steps, and what it has done in one turn may be
// lost in the next.
func noteTurns(c *call) {
	c.turns = c.turns[:0]
	for i, g := range c.srv.keyed {
		turn := uint64(0)
		if c.Groups[i] != nil {
			turn, _ = g.Keeper.Leading()
		}
		c.turns = append(c.turns, turn)
	}
}

// tellTurns notes in sh that the command reveals the states of the groups that it concerns.
func tellTurns(c *call, sh *group.Shares) {
	for i, g := range c.srv.keyed {
		if c.Groups[i] != nil {
			sh.Tell(g, c.turns[i])
		}
	}
}

// notLed returns a group that another node leads, the first if there is none.
func notLed(srv *Server) *group.Group {
	for _, g := range srv.every {
		if !g.Leads() {
			return g
		}
	}
	return srv.group
}

// slotOfMulti returns the slot of the keys that a transaction names or watches.
func slotOfMulti(c *call, m *multi) (slot int) {
	slot = m.watchedSlot()
	own, args := c.cmd, c.Args
	defer func() { c.cmd, c.Args = own, args }()
	for i := range m.queued {
		q := &m.queued[i]
		switch {
		case q.cmd.HasKeys():
			slot = q.cmd.slot(slot, q.args)
		case q.cmd.Flags&spec.Across != 0:
			leave(c)
			c.cmd, c.Args = q.cmd, q.args
			if p, text := q.cmd.Prepare(c); text == "" {
				for _, key := range p.Keys() {
					slot = group.WithKey(slot, key)
				}
				p.Free()
			}
		}
	}
	return slot
}

// anywhere reports whether every node runs the command itself: what concerns the node's scripts, or what it leads.
func (c *command) anywhere() bool {
	return c.Name == "WAIT" || c.Parent != nil && c.Parent.Name == "SCRIPT"
}

// onlyGroups is what a node puts before a command on the keys of all groups that it forwards, and the numbers of those that the other node leads,
// separated by commas. A client's connection does not know it.
const onlyGroups = "\x00groups"

// scriptOf is what begins a call that brings a script, whose source is the other word. It has no reply. A client's connection does not know it.
const scriptOf = "\x00script"

// redirected reports whether the client gets -MOVED.
func (s *session) redirected() bool {
	return s.knowsClusters || s.srv.set.RaftRedirect.Get() == "moved"
}

// forwards reports whether this node forwards commands while another leads.
func (srv *Server) forwards() bool {
	r := srv.opts.Replication
	return r != nil && r.Uplink != nil && srv.set.RaftRedirect.Get() != "moved"
}

// elsewhere returns the error for a command that another node must serve. A client that relies on this node to forward it is not told
// where: the node cannot reach the leader itself.
func (c *call) elsewhere() string {
	if s := c.client; c.srv.forwards() && (s == nil || !s.redirected() && !s.caching) {
		return spec.ErrNoLeader
	}
	return c.group.Replication.Elsewhere(&c.cmd.Command, c.Args)
}
