package server

import (
	"bytes"

	"limitdb/resp"
	"limitdb/server/pubsub"
	"limitdb/server/spec"
)

// tracking is the state of CLIENT TRACKING. limitdb does not remember which client has read
// which key, and a decision changes its key anyway, so clients must not cache anything. Of Redis'
// modes it can honor only OPTIN: a client caches only the keys that it announces by CLIENT
// CACHING YES, and the server tells it at once that they have changed.
type tracking struct {
	redirect int64 // the client that receives invalidations; 0: this one
	noLoop   bool
	broken   bool // the client of redirect is no longer connected
	caching  bool // the next command's keys are invalidated
}

// invalidateChannel is the channel on which RESP2 clients receive invalidations.
const invalidateChannel = "__redis__:invalidate"

// trackingOptions are the arguments of CLIENT TRACKING.
type trackingOptions struct {
	tracking
	bcast, optIn, optOut, prefix bool
}

// parse parses the options. It returns the error to reply with, or "".
func (o *trackingOptions) parse(srv *Server, args [][]byte) string {
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case more && resp.EqualFold(args[i], "REDIRECT"):
			if o.redirect != 0 {
				return errTrackingRedirects
			}
			i++
			id, ok := resp.ParseInt(args[i])
			if !ok {
				return spec.ErrNotInt
			}
			if srv.clients.Find(id) == nil {
				return errTrackingNoClient
			}
			o.redirect = id
		case resp.EqualFold(args[i], "BCAST"):
			o.bcast = true
		case resp.EqualFold(args[i], "OPTIN"):
			o.optIn = true
		case resp.EqualFold(args[i], "OPTOUT"):
			o.optOut = true
		case resp.EqualFold(args[i], "NOLOOP"):
			o.noLoop = true
		case more && resp.EqualFold(args[i], "PREFIX"):
			o.prefix = true
			i++
		default:
			return spec.ErrSyntax
		}
	}
	return ""
}

// check returns the error for a client that cannot turn tracking on with these options, or "".
// The order of the checks and the texts are Redis'. on reports whether tracking is on already,
// which is always with OPTIN.
func (o *trackingOptions) check(on bool) string {
	switch {
	case o.prefix && !o.bcast:
		return errTrackingPrefix
	case o.bcast && on:
		return errTrackingSwitchBcast
	case o.bcast && (o.optIn || o.optOut):
		return errTrackingBcastOpt
	case o.optIn && o.optOut:
		return errTrackingBothOpts
	case o.optOut && on:
		return errTrackingSwitchOpt
	case !o.optIn:
		return errTrackingNever
	}
	return ""
}

func clientTracking(c *call) {
	var o trackingOptions
	if text := o.parse(c.srv, c.Args[3:]); text != "" {
		c.Fail(text)
		return
	}
	switch {
	case resp.EqualFold(c.Args[2], "ON"):
		if text := o.check(c.client.tracking != nil); text != "" {
			c.Fail(text)
			return
		}
		c.client.track(&o.tracking)
	case resp.EqualFold(c.Args[2], "OFF"):
		c.client.track(nil)
	default:
		c.Fail(spec.ErrSyntax)
		return
	}
	c.OK()
}

// track turns tracking on, or off if t is nil.
func (s *session) track(t *tracking) {
	s.tracking = t
	if t == nil {
		s.pub.SetTracking(false, 0)
		return
	}
	s.pub.SetTracking(true, t.redirect)
}

func clientCaching(c *call) {
	switch {
	case c.client.tracking == nil:
		c.Fail(errCachingOff)
	case resp.EqualFold(c.Args[2], "YES"):
		c.client.tracking.caching = true
		c.OK()
	case resp.EqualFold(c.Args[2], "NO"):
		c.Fail(errCachingNo)
	default:
		c.Fail(spec.ErrSyntax)
	}
}

func clientTrackingInfo(c *call) {
	flags := []string{"off"}
	if t := c.client.tracking; t != nil {
		flags = []string{"on", "optin"}
		for _, f := range []struct {
			on   bool
			name string
		}{{t.caching, "caching-yes"}, {t.noLoop, "noloop"}, {t.broken, "broken_redirect"}} {
			if f.on {
				flags = append(flags, f.name)
			}
		}
	}
	c.Fields("flags", func() { c.TextSet(flags) }, "redirect", c.client.pub.Redirect.Load(), "prefixes", []string{})
}

// announced reports whether the server must invalidate the next command's keys.
func (t *tracking) announced() bool { return t != nil && t.caching }

// readBy returns the keys of a command, those of the whole transaction for EXEC.
func readBy(s *session, args [][]byte) (keys [][]byte) {
	cmd, text := s.srv.table.resolve(args)
	switch {
	case cmd == nil || text != "":
	case cmd.Name == "EXEC" && s.multi.isOpen():
		for _, q := range s.multi.queued {
			q.cmd.Keys(q.args, func(i int) { keys = append(keys, bytes.Clone(q.args[i])) })
		}
	default:
		cmd.Keys(args, func(i int) { keys = append(keys, args[i]) })
	}
	return keys
}

// invalidate tells the client, after the reply to the command of that name, not to cache the keys that it has
// read. As in Redis, CLIENT CACHING applies to the next command other than CLIENT, or to a transaction.
func (t *tracking) invalidate(s *session, name []byte, keys [][]byte) {
	if resp.EqualFold(name, "CLIENT") || s.multi.isOpen() {
		return
	}
	t.caching = false
	if len(keys) == 0 {
		return
	}
	if t.redirect != 0 {
		t.invalidateElsewhere(s, keys)
		return
	}
	if s.call.Proto != resp.RESP3 {
		return
	}
	b := appendInvalidation(nil, resp.RESP3, keys)
	if s.pending != nil {
		s.after = b
		return
	}
	s.call.Out = append(s.call.Out, b...)
}

// invalidateElsewhere sends the invalidation to the client of CLIENT TRACKING's REDIRECT.
func (t *tracking) invalidateElsewhere(s *session, keys [][]byte) {
	to := s.srv.clients.Find(t.redirect)
	switch {
	case to == nil:
		t.broken = true
		if s.call.Proto == resp.RESP3 {
			s.call.Push(2)
			s.call.Text("tracking-redir-broken")
			s.call.Int(t.redirect)
		}
	case to.RESP3.Load():
		to.Deliver(appendInvalidation(nil, resp.RESP3, keys))
	case to.Subs.Heard(pubsub.Channel, invalidateChannel):
		to.Deliver(appendInvalidation(nil, resp.RESP2, keys))
	}
}

// appendInvalidation appends the message that keys have changed: a push in RESP3, and in RESP2 a
// message on invalidateChannel.
func appendInvalidation(b []byte, proto resp.Proto, keys [][]byte) []byte {
	if proto == resp.RESP3 {
		b = resp.AppendPush(b, proto, 2)
		b = resp.AppendBulkString(b, "invalidate")
	} else {
		b = resp.AppendArray(b, 3)
		b = resp.AppendBulkString(b, "message")
		b = resp.AppendBulkString(b, invalidateChannel)
	}
	return resp.AppendCommand(b, keys...) // an array of them
}
