package server

import (
	"bytes"

	"limitdb/resp"
	"limitdb/server/spec"
)

// tracking is the state of CLIENT TRACKING. limitdb does not remember which client has read
// which key, and a decision changes its key anyway, so clients must not cache anything. Of Redis'
// modes it can honor only OPTIN: a client caches only the keys that it announces by CLIENT
// CACHING YES, and the server tells it at once, by a push of RESP3, that they have changed.
type tracking struct {
	caching bool // the next command's keys are invalidated
}

func clientTracking(c *call) {
	on, optIn := resp.EqualFold(c.Args[2], "ON"), len(c.Args) == 4 && resp.EqualFold(c.Args[3], "OPTIN")
	switch {
	case on && optIn:
		c.client.track(new(tracking))
	case on:
		c.Fail(errTrackingNever)
		return
	case resp.EqualFold(c.Args[2], "OFF") && (optIn || len(c.Args) == 3):
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
	s.pub.SetTracking(t != nil)
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
	if s.call.Proto != resp.RESP3 {
		return
	}
	b := resp.AppendPush(nil, resp.RESP3, 2)
	b = resp.AppendBulkString(b, "invalidate")
	b = resp.AppendCommand(b, keys...) // an array of them
	if s.pending != nil {
		s.after = b
		return
	}
	s.call.Out = append(s.call.Out, b...)
}
