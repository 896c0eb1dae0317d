package server

import (
	"bytes"
	"slices"
	"strconv"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/crossing"
	"limitdb/server/group"
	"limitdb/server/limits"
	"limitdb/server/request"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// Parts of requests that other nodes carry out, since they lead the groups. The words of such a call are partOf; the name of the client's command; the
// namespace of rules that it names, if it does; and those of crossing.Parse. The other node looks at the user's rights, for that command, as well.

// partOf is what begins the call. A client's connection does not know it.
const partOf = "\x00part"

const errPart = "ERR these are not the words of another node of this version"

// farther returns what sends parts of the call's request to other nodes, over the uplinks of an event loop. All requests of a user share their streams.
func farther(c *call, loop int) crossing.Far {
	srv, client := c.srv, uplink.Client{Remote: "part", Local: "part", Unix: true, RESP3: true, User: c.UserName()}
	begin := [][]byte{[]byte(partOf), []byte(c.cmd.Name), nil}
	if c.cmd.Route > 0 {
		begin[2] = bytes.Clone(c.Args[c.cmd.Route])
	}
	return func(g *group.Group, words [][]byte, told func(reply []byte, refused bool)) bool {
		link := g.Uplink(loop)
		if link == nil || !srv.lines.Ask(link, client, resp.AppendCommand(nil, append(begin[:3:3], words...)...), told) {
			return false
		}
		srv.counters.forwarded.Add(1)
		return true
	}
}

// part carries out a part of another node's request. As with other commands of its clients, one that this node must not decide ends the session, and the
// reply waits until what it tells is durable.
func (s *session) part(args [][]byte) {
	c := &s.call
	p, g, text := parsePart(c, args)
	if text != "" {
		c.Out = crossing.AppendFailed(c.Out, -1, text)
		return
	}
	c.crosses, c.here, c.gathers, c.only, c.Groups = false, false, false, nil, nil
	enter(s, g)
	special := g.Special.Load() | s.early
	text = c.refusal(byItself, special)
	switch {
	case text != "":
		s.stripe.Reject(c.cmd.ID)
		c.Out = crossing.AppendFailed(c.Out, -1, text)
		return
	case special&specialPause != 0 && c.held() && !p.GivesBack():
		s.holdBack(args)
		return
	case special&specialFollowing != 0:
		s.life.Drain(uplink.ErrNotLeading)
		return
	}
	mark, begun := len(c.Out), false
	s.pub.LastCmd.Store(&c.cmd.Command)
	c.Failed, c.Quorum, c.Durable = false, p.Lasts(), false
	c.Out, begun = p.Append(c.Out, g, func(err error, key []byte, l *limit.Limit) string {
		if key != nil && c.cmd.HasKeys() {
			return limits.ErrorText(c.Keyspace(), err, key, l.Algorithm.Kind())
		}
		return request.ErrorText(err)
	})
	if !begun {
		s.life.Drain(uplink.ErrNotLeading)
		return
	}
	c.Worked(int64(len(p.Keys())))
	s.tell(&c.cmd.Command, mark)
}

// parsePart reads the words of a part and returns the group that it concerns. It makes the client's command, with the part's keys, that of the call.
func parsePart(c *call, args [][]byte) (p *crossing.Part, g *group.Group, text string) {
	c.Args = args
	if len(args) < 4 || c.client.multi.isOpen() {
		return nil, nil, errPart
	}
	if c.cmd = c.srv.table.find(args[1]); c.cmd == nil || c.cmd.Flags&spec.Across == 0 {
		return nil, nil, errPart
	}
	p, err := crossing.Parse(args[3:], &c.Zones)
	if err != nil {
		return nil, nil, request.ErrorText(err)
	}
	keys := p.Keys()
	g = c.srv.groupOf(keys[0])
	if slices.ContainsFunc(keys, func(key []byte) bool { return c.srv.groupOf(key) != g }) {
		return nil, nil, errPart
	}
	if c.cmd.HasKeys() {
		c.Args = append([][]byte{args[1], []byte(strconv.Itoa(len(keys)))}, keys...)
		return p, g, ""
	}
	callers := append(rules.AppendNamespace(nil, args[2]), ':')
	for _, key := range keys {
		if name, ok := rules.CallerName(key); !ok || !bytes.HasPrefix(name, callers) {
			return nil, nil, errPart
		}
	}
	c.Args = [][]byte{args[1], args[2]}
	return p, g, ""
}
