package envoyrls

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// A call is one stream of a session, until its answer is sent.
type call struct {
	x        *session
	id       uint32
	begun    int64 // ns of Unix time
	deadline int64 // ns of Unix time
	to       target
	as       context.Context // of the command
	message  []byte          // what has come of the message, with the five bytes before it
	ended    bool            // the client has sent all
	partial  bool            // it has not, and is expected to
	room     int64           // how much more the client may send
	window   int64           // how much more it takes
	length   int64           // of the messages as the head says, -1 if it does not
	got      int64           // how much of them has come
	cancel   func()          // of the goroutine; nil: there is none
	held     int64           // bytes that it counts as
	kept     int64           // those of them that are for message
	watched  string          // the service whose health is watched
	health   byte            // that was told last; 0: none is watched

	headed bool   // the answer has begun
	unsent []byte // messages that the windows have no room for
	stuck  bool   // it is among those of its session
	end    string // the fields that follow them; "": the answer goes on
}

// target is what a call asks for.
type target int

const (
	toDecide target = iota
	toCheck
	toWatch
	toReflect
)

// The names of the methods.
const (
	serviceName = "envoy.service.ratelimit.v3.RateLimitService"
	healthName  = "grpc.health.v1.Health"
)

// targetOf returns what a path asks for.
func (s *Server) targetOf(path string) (to target, ok bool) {
	switch path {
	case "/" + serviceName + "/ShouldRateLimit":
		return toDecide, true
	case "/" + healthName + "/Check":
		return toCheck, true
	case "/" + healthName + "/Watch":
		return toWatch, true
	case "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":
		return toReflect, s.Reflection
	}
	return 0, false
}

// begin begins the call whose head has been read.
func (x *session) begin(stream uint32, ended bool) {
	h := &x.head
	if h.size > maxHeaders || !h.whole() {
		x.out = appendReset(x.out, stream, protocolError)
		return
	}
	if x.leaving == leaves || len(x.calls)+x.lost >= maxStreams {
		x.out = appendReset(x.out, stream, refusedStream)
		return
	}
	length := int64(-1)
	if h.length != "" {
		n, err := strconv.ParseUint(h.length, 10, 63)
		if length = int64(n); err != nil || ended && n > 0 {
			x.out = appendReset(x.out, stream, protocolError)
			return
		}
	}
	c := x.spare
	if x.spare = nil; c == nil {
		c = new(call)
	}
	*c = call{x: x, id: stream, begun: x.now, deadline: math.MaxInt64, ended: ended, partial: !ended, room: streamWindow, window: x.initial, length: length, held: callSize, message: c.message[:0], unsent: c.unsent[:0]}
	x.calls[stream] = c
	x.held += callSize
	if c.partial {
		x.partial++
	}
	if h.method != "POST" || !h.isGRPC() {
		c.refuse(h)
		return
	}
	if err := c.admit(h); err != nil {
		c.fail(err)
		return
	}
	if ended {
		c.finished()
	}
}

// admit notes what the head of a call asks for, or returns why it cannot be had.
func (c *call) admit(h *head) *failure {
	to, ok := c.x.s.targetOf(h.path)
	if !ok {
		return failed(codeNoMethod, "there is no such method")
	}
	c.to = to
	if h.encoding != "" && h.encoding != "identity" {
		return failed(codeNoMethod, "messages are not compressed here")
	}
	if h.timeout != "" {
		d, ok := timeoutOf(h.timeout)
		if !ok {
			return failed(codeArgument, "grpc-timeout cannot be read")
		}
		if d < math.MaxInt64-c.x.now {
			c.deadline = c.x.now + d
		}
	}
	if to != toDecide {
		return nil
	}
	user, password, given := "", "", false
	if h.authorization != "" {
		user, password, given = credentialsOf(h.authorization)
	}
	as, err := c.x.guest.May([]byte(user), []byte(password), given)
	if err != nil {
		return failed(codeUnknown, err.Error())
	}
	c.as = as
	return nil
}

// take takes a part of a call's messages.
func (c *call) take(part []byte, ends bool) {
	if ends && len(c.message) == 0 && c.to != toReflect {
		// The usual case: the message is one frame.
		c.completed()
		c.serve(part)
		return
	}
	if err := c.keep(part); err != nil {
		c.fail(err)
		return
	}
	for asked := 0; c.to == toReflect; asked++ {
		message, rest, err := cutMessage(c.message)
		if err != nil {
			c.fail(err)
			return
		}
		if message == nil {
			break
		}
		if asked == maxAsks || len(c.unsent) > maxAhead {
			c.fail(errAhead)
			return
		}
		if c.reflect(message); c.x.calls[c.id] != c {
			return
		}
		c.message = c.message[:copy(c.message, rest)]
	}
	switch n := declared(c.message); {
	case n > maxMessage:
		c.fail(errLarge)
	case n > maxName && c.to != toDecide:
		c.fail(errLong)
	case n >= 0 && len(c.message) > 5+n && c.to != toReflect:
		c.fail(errSeveral)
	case ends:
		c.finished()
	}
}

// keep keeps a part of a message until the rest comes. What a client has begun to send on several streams is bounded as the commands of
// any other client are; one message alone has its own bound.
func (c *call) keep(part []byte) *failure {
	before := cap(c.message)
	c.message = append(c.message, part...)
	c.keeps(int64(cap(c.message) - before))
	if _, all := c.x.s.Longest(); c.x.half > max(all, c.kept) {
		return failed(codeExhausted, fmt.Sprintf("messages that are not whole take %d bytes: client-query-buffer-limit allows %d", c.x.half, all))
	}
	return nil
}

// keeps notes that a partial call's message takes more bytes than before.
func (c *call) keeps(more int64) {
	c.x.half += more
	c.x.held += more
	c.held += more
	c.kept += more
}

// agrees reports whether as much has come as the head says, or until the end not more.
func (c *call) agrees(ends bool) bool {
	return c.length < 0 || c.got == c.length || !ends && c.got < c.length
}

// completed notes that the messages of a call are whole.
func (c *call) completed() {
	c.ended = true
	if c.partial {
		c.partial = false
		c.x.half -= c.kept
		if c.x.partial--; c.x.oldest == c {
			c.x.oldest = nil
		}
	}
}

// finished serves a call whose end has come by itself, or in parts.
func (c *call) finished() {
	c.completed()
	if c.end != "" {
		return
	}
	if c.to == toReflect {
		c.answer(nil, answerEnd)
		return
	}
	c.serve(c.message)
}

// The failures of messages.
var (
	errLarge   = failed(codeExhausted, "the message has more than "+strconv.Itoa(maxMessage)+" bytes")
	errLong    = failed(codeExhausted, "the message has more than "+strconv.Itoa(maxName)+" bytes")
	errAhead   = failed(codeExhausted, "it asks for more than it reads")
	errSeveral = failed(codeInternal, "there is more than one message")
	errNothing = failed(codeInternal, "there is no whole message")
	errPacked  = failed(codeNoMethod, "messages are not compressed here")
)

// declared returns the length of a message as the bytes before it say, -1 if they are not there.
func declared(b []byte) int {
	if len(b) < 5 {
		return -1
	}
	return int(binary.BigEndian.Uint32(b[1:]))
}

// cutMessage cuts the first message from b. It is nil if it is not whole.
func cutMessage(b []byte) (message, rest []byte, err *failure) {
	n := declared(b)
	switch {
	case n > maxMessage:
		return nil, nil, errLarge
	case n < 0 || len(b) < 5+n:
		return nil, b, nil
	case b[0] != 0:
		return nil, nil, errPacked
	}
	return b[5 : 5+n : 5+n], b[5+n:], nil
}

// serve answers a call whose messages are whole.
func (c *call) serve(b []byte) {
	message, rest, err := cutMessage(b)
	switch {
	case err != nil:
	case message == nil:
		err = errNothing
	case len(rest) > 0:
		err = errSeveral
	case c.x.now >= c.deadline:
		err = errLate
	case c.to == toDecide:
		err = c.decide(message)
	default:
		err = c.tellsHealth(message)
	}
	if err != nil {
		c.fail(err)
	}
}

// decide runs the command of a call. Until it is known to last, a goroutine waits.
func (c *call) decide(message []byte) *failure {
	words, err := command(message)
	if err == nil {
		err = c.x.s.fits(words)
	}
	if err != nil {
		return failed(codeArgument, err.Error())
	}
	reply, wait := c.x.s.Begin(c.as, words)
	if wait == nil {
		return c.decided(reply)
	}
	c.held += int64(len(message))
	c.x.held += int64(len(message))
	// The time is that of the clock of the machine: nothing else wakes up.
	patience, late := decideFor, false
	if left := time.Duration(c.deadline - c.x.now); left < patience {
		patience, late = left, true
	}
	ctx, cancel := context.WithTimeout(c.as, patience)
	c.cancel = cancel
	c.x.s.waits.Go(func() {
		defer cancel()
		reply, err := wait(ctx)
		if err != nil {
			err = failureOf(err, late)
		}
		c.x.arrives(landed{c, reply, err})
	})
	return nil
}

// land answers a call that has waited.
func (x *session) land(l landed) {
	c := l.c
	if x.calls[c.id] != c {
		x.lost--
		return
	}
	c.cancel = nil
	err := (*failure)(nil)
	if l.err == nil {
		err = c.decided(l.reply)
	} else if !errors.As(l.err, &err) {
		err = failed(codeInternal, l.err.Error())
	}
	if err != nil {
		c.fail(err)
	}
}

// decided answers a call by the reply to its command.
func (c *call) decided(reply []byte) *failure {
	out, err := appendResponse(append(c.x.scratch[:0], 0, 0, 0, 0, 0), reply, c.x.s.Headers())
	if err != nil {
		return err
	}
	c.answer(framed(out), answerEnd)
	if c.x.scratch = out; cap(out) > keepsRoom {
		c.x.scratch = nil
	}
	return nil
}

// framed writes the five bytes before a message, for which there is room.
func framed(b []byte) []byte {
	b[0] = 0
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
	return b
}

// answer answers a call with a message, and ends it with fields.
func (c *call) answer(message []byte, end string) {
	c.say(message)
	c.end = end
	c.send()
}

// say queues a message of a call. The first one begins the answer.
func (c *call) say(message []byte) {
	if !c.headed {
		c.headed = true
		c.x.out = append(appendHead(c.x.out, len(answerHead), typeHeaders, flagEndHeaders, c.id), answerHead...)
	}
	c.x.strikes, c.x.pingAt = 0, 0
	c.unsent = append(c.unsent, message...)
	c.x.held += int64(len(message))
	c.held += int64(len(message))
}

// send sends what is unsent of a call as far as the windows have room, and then its end.
func (c *call) send() {
	sent, whole := 0, c.unsent
	for sent < len(c.unsent) {
		n := int(min(int64(len(c.unsent)-sent), maxFrame, c.x.window, c.window))
		if n <= 0 {
			break
		}
		c.x.out = append(appendHead(c.x.out, n, typeData, 0, c.id), c.unsent[sent:sent+n]...)
		sent += n
		c.x.window -= int64(n)
		c.window -= int64(n)
	}
	c.x.held -= int64(sent)
	c.held -= int64(sent)
	if sent > 0 {
		c.x.strikes, c.x.pingAt = 0, 0
	}
	if c.unsent = c.unsent[sent:]; len(c.unsent) == 0 {
		c.unsent = whole[:0] // the next call has its room
	}
	switch {
	case len(c.unsent) > 0:
		if !c.stuck {
			c.stuck = true
			c.x.stuck = append(c.x.stuck, c)
		}
	case c.end != "":
		c.x.out = append(appendHead(c.x.out, len(c.end), typeHeaders, flagEndHeaders|flagEnd, c.id), c.end...)
		if !c.ended {
			c.x.out = appendReset(c.x.out, c.id, noError)
		}
		c.forget()
	}
}

// unstick sends what the windows have room for now.
func (x *session) unstick() {
	still := x.stuck[:0]
	for _, c := range x.stuck {
		if x.window > 0 && c.window > 0 {
			c.send()
		}
		if c.stuck = len(c.unsent) > 0; c.stuck {
			still = append(still, c)
		}
	}
	clear(x.stuck[len(still):])
	x.stuck = still
}

// fail ends a call without an answer.
func (c *call) fail(why *failure) {
	if c.partial { // no more of its message is looked at
		c.message = nil
		c.keeps(-c.kept)
	}
	c.x.strikes, c.x.pingAt = 0, 0
	c.end = why.block()
	if !c.headed {
		c.headed, c.end = true, answerHead+c.end
	}
	c.send()
}

// refuse ends a call that is not of gRPC.
func (c *call) refuse(h *head) {
	status := "415"
	if h.method != "POST" {
		status = "405"
	}
	c.headed, c.end = true, statusOther+status
	c.send()
}

// cut ends a call for an error of HTTP/2.
func (c *call) cut(why uint32) {
	c.x.out = appendReset(c.x.out, c.id, why)
	c.forget()
}

// forget forgets a call that is over.
func (c *call) forget() {
	c.completed()
	delete(c.x.calls, c.id)
	c.x.held -= c.held
	if c.cancel != nil {
		c.cancel()
		c.x.lost++
	}
	if c.to == toWatch && c.health != 0 {
		c.x.watches.Add(-1)
	}
	if len(c.unsent) > 0 {
		c.x.stuck = slices.DeleteFunc(c.x.stuck, func(other *call) bool { return other == c })
	}
	// A goroutine may still have a call that has waited.
	if c.cancel == nil && c.x.spare == nil && cap(c.message)+cap(c.unsent) <= keepsRoom {
		c.x.spare = c
	}
}
