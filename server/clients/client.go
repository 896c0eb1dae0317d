// Package clients has the connected clients as any goroutine may see them: what they have said about themselves, the memory that they
// hold, and why their connections were closed. It closes those that are over a deadline or a limit. It knows no session.
package clients

import (
	"container/list"
	"sync/atomic"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/pubsub"
	"limitdb/server/spec"
	"limitdb/server/users"
	"limitdb/transport"
)

// A Client is a connected client. Its session sets the fields that are not atomic before Set.Add, and only the session stores into the
// others. Any goroutine may read them.
type Client struct {
	ID   int64 // given by Set.Add
	Conn transport.Conn
	Subs *pubsub.Subscriptions
	// Far says that the client is connected to another node, which sees to its deadlines. It takes no descriptor here.
	Far bool

	Name, LibName, LibVer  Text
	LastCmd                atomic.Pointer[spec.Command] // nil: none yet
	User                   atomic.Pointer[users.Rights] // of the user that the client is
	LastActive             atomic.Int64                 // ns of Unix time
	PartialSince           atomic.Int64                 // ns at which a command has begun that is not whole; 0: none has
	Batches                atomic.Int64                 // that have begun and ended; odd during one. Counted on a node of a cluster only
	Queued                 atomic.Int32                 // 1 and the commands since MULTI; 0: there was no MULTI
	Authed, Monitor, RESP3 atomic.Bool
	Tracks                 atomic.Bool          // CLIENT TRACKING is on
	Waits                  atomic.Pointer[Wait] // the request that waits for its turn, or nil

	// The memory that the server holds for the client, in bytes.
	Buffered    atomic.Int64 // of the query, which has not run
	QueryMemory atomic.Int64 // of the buffer that holds it
	ArgMemory   atomic.Int64 // of the command that a pause holds back
	StepMemory  atomic.Int64 // of a command that has yielded, with its results so far
	MultiMemory atomic.Int64 // of commands that wait for EXEC, and of what is watched
	Owed        atomic.Int64 // of replies that wait for the disk

	set                *Set
	created            int64 // ns of Unix time
	noEvict, parked    atomic.Bool
	watched            atomic.Int32
	subscribed         atomic.Int32
	subBytes, textSize atomic.Int64
	accounted          atomic.Int64  // bytes counted in Set.Bytes
	softSince          atomic.Int64  // ns of Unix time at which the soft output limit was exceeded; 0: it is not
	stranger           *list.Element // in Set.strangers, which guards it; nil: the client has authenticated, or gives way
}

// Init makes c the client of a new connection, before Set.Add.
func (s *Set) Init(c *Client, conn transport.Conn, now int64) {
	c.set, c.Conn, c.created = s, conn, now
	c.LastActive.Store(now)
}

// Addr returns the peer's address as CLIENT LIST shows it.
func (c *Client) Addr() string { return AddrText(c.Conn.RemoteAddr(), c.Conn.LocalAddr()) }

// UserName returns the name of the user that the client is.
func (c *Client) UserName() string {
	if r := c.User.Load(); r != nil {
		return r.Name
	}
	return users.Default
}

// Age returns for how many ns the client has been connected at now.
func (c *Client) Age(now int64) int64 { return now - c.created }

// change adjusts n, a number of clients, to one that was one of them or was not, and now is one or is not.
func change(n *atomic.Int64, was, is bool) {
	switch {
	case is && !was:
		n.Add(1)
	case was && !is:
		n.Add(-1)
	}
}

// SetParked notes whether the client waits for something.
func (c *Client) SetParked(on bool) { change(&c.set.Parked, c.parked.Swap(on), on) }

// Parked reports whether the client waits for something.
func (c *Client) Parked() bool { return c.parked.Load() }

// SetWatched notes how many keys the client watches.
func (c *Client) SetWatched(n int) { change(&c.set.Watching, c.watched.Swap(int32(n)) > 0, n > 0) }

// SetTracking notes whether the client has CLIENT TRACKING.
func (c *Client) SetTracking(on bool) { change(&c.set.Tracking, c.Tracks.Swap(on), on) }

// CountSubs implements pubsub.Subscriber: it notes the subscriptions, after a change. Only the session may call it.
func (c *Client) CountSubs() {
	n := int32(c.Subs.Len())
	change(&c.set.Subscribed, c.subscribed.Swap(n) > 0, n > 0)
	c.subBytes.Store(int64(c.Subs.Memory()))
}

// Proto implements pubsub.Subscriber.
func (c *Client) Proto() resp.Proto {
	if c.RESP3.Load() {
		return resp.RESP3
	}
	return resp.RESP2
}

// SubCount returns the number of the client's subscriptions.
func (c *Client) SubCount() int { return int(c.subscribed.Load()) }

// Wait is a request that waits for its turn in a group.
type Wait struct {
	*engine.Waiter
	Group *handler.Group
}

// Unblock ends the client's wait for its turn with cause, or with a denial if cause is nil, when the process's clock has a time. It reports
// whether the client was waiting.
func (c *Client) Unblock(now int64, cause error) bool {
	w := c.Waits.Load()
	if w == nil || !w.Group.Engine.Load().Cancel(w.Group.At(now), w.Waiter, cause) {
		return false
	}
	c.Conn.Wake()
	return true
}

// Deliver sends b, which is not a reply. A client that does not read what it gets is closed.
func (c *Client) Deliver(b []byte) {
	c.Conn.Write(b)
	unsent := c.Conn.Pending()
	if unsent == 0 {
		return
	}
	if c.Charge(); unsent > c.OutputLimit() {
		c.Conn.Close(ErrOutput)
	}
}

// CloseForOutput closes a client that does not read its replies.
func (c *Client) CloseForOutput() {
	unsent := c.Conn.Pending()
	if !c.Conn.Close(ErrOutput) {
		return // another goroutine has closed it meanwhile
	}
	c.set.log.Warn("client closed: its unsent replies are over the limit", "id", c.ID, "addr", c.Addr(), "unsent", unsent, "limit", c.OutputLimit())
}

// unauthOutput is the most bytes of replies that the server holds for a client before AUTH.
const unauthOutput = 64 << 10

// OutputLimit returns the most bytes of unsent replies that the client may have.
func (c *Client) OutputLimit() int64 {
	if !c.Authed.Load() {
		return unauthOutput
	}
	return c.set.settings.ClientOutputBufferLimit.Get(c.class()).Most()
}

// class returns the class whose client-output-buffer-limit applies to the client.
func (c *Client) class() config.ClientClass {
	if c.SubCount() > 0 {
		return config.PubSubClient
	}
	return config.NormalClient
}

// overSoft reports whether the client's unsent replies have exceeded the soft limit of its class for longer than that limit allows.
func (c *Client) overSoft(now int64) bool {
	l := c.set.settings.ClientOutputBufferLimit.Get(c.class())
	if l.Soft == 0 || c.Conn.Pending() <= l.Soft {
		c.softSince.Store(0)
		return false
	}
	if c.softSince.CompareAndSwap(0, now) {
		return false
	}
	return now-c.softSince.Load() > int64(l.SoftTime)
}

// Memory is the memory that the server holds for a client, in bytes.
type Memory struct {
	Query     int64 // the buffer of input that has not run
	Args      int64 // the command that a pause holds back, or that has yielded, with its results so far
	Multi     int64 // its transaction
	Texts     int64 // its names
	Subs      int64 // its subscriptions
	Owed      int64 // replies that wait for the disk
	Unsent    int64 // the buffers of replies that it has not read
	UnsentIn  int64 // the number of these buffers
	Connected int64 // the session itself
}

// Memory returns the memory that the server holds for the client.
func (c *Client) Memory() Memory {
	buffers, unsent := c.Conn.Queue()
	return Memory{
		Query: c.QueryMemory.Load(), Args: c.ArgMemory.Load() + c.StepMemory.Load(), Multi: c.MultiMemory.Load(), Texts: c.textSize.Load(),
		Subs: c.subBytes.Load(), Owed: c.Owed.Load(), Unsent: unsent, UnsentIn: int64(buffers),
		Connected: c.set.each,
	}
}

// growing returns the part that a client can make larger, which maxmemory-clients bounds.
func (m *Memory) growing() int64 {
	return m.Query + m.Args + m.Multi + m.Texts + m.Subs + m.Owed + m.Unsent
}

// total returns tot-mem of CLIENT LIST.
func (m *Memory) total() int64 { return m.growing() + m.Connected }

// holding returns the memory of the client that maxmemory-clients bounds.
func (c *Client) holding() int64 {
	m := c.Memory()
	return m.growing()
}

// Charge updates the sum of all clients' memory. Of two calls at a time, one may be lost until the next Check.
func (c *Client) Charge() {
	held := c.holding()
	if before := c.accounted.Load(); before != held {
		c.accounted.Store(held)
		s := c.set
		of, others := s.Bytes.Add(held-before), int64(0)
		if c.noEvict.Load() {
			of = s.Exempt.Add(held - before)
		} else {
			others = s.Exempt.Load()
		}
		if most := s.Budget(); most > 0 && of-others > most {
			s.kick()
		}
	}
}

// Exempt sets or ends CLIENT NO-EVICT.
func (c *Client) Exempt(on bool) {
	if c.noEvict.Swap(on) == on {
		return
	}
	held := c.accounted.Load()
	if !on {
		held = -held
	}
	c.set.Exempt.Add(held)
}

// A Text is what a client has said about itself: its name, or its library's name or version.
type Text struct{ p atomic.Pointer[string] }

// String returns the text, "" for none.
func (t *Text) String() string {
	if p := t.p.Load(); p != nil {
		return *p
	}
	return ""
}

// TextMost bounds each Text, in bytes.
const TextMost = 1024

// Say stores a text that the client says about itself, unless it is longer than TextMost or, as in Redis, has anything but printable
// ASCII without blanks. It then returns the error to reply with, which is wrong in the second case. An empty b removes the text.
func (c *Client) Say(to *Text, b []byte, wrong string) (text string) {
	if text = TextError(b, wrong); text != "" {
		return text
	}
	c.textSize.Add(int64(len(b) - len(to.String())))
	if len(b) == 0 {
		to.p.Store(nil)
		return ""
	}
	said := string(b)
	to.p.Store(&said)
	return ""
}

// ErrLongText is the reply to a client that says too much about itself.
const ErrLongText = "ERR a client's name, lib-name and lib-ver may have at most 1024 bytes"

// TextError returns the error that Say would return.
func TextError(b []byte, wrong string) string {
	if len(b) > TextMost {
		return ErrLongText
	}
	for _, c := range b {
		if c < '!' || c > '~' {
			return wrong
		}
	}
	return ""
}
