package pubsub

import (
	"bytes"
	"fmt"
	"strings"

	"limitdb/engine"
	"limitdb/internal/glob"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// The error texts for clients. ErrChannelForPatterns takes a number of bytes.
const (
	ErrLongChannel        = "ERR a channel may have at most 65536 bytes"
	ErrTooManyChannels    = "ERR too many subscriptions: one client may have 1024, with names of 64 kB together"
	ErrChannelForPatterns = "ERR with the patterns that clients subscribe to now, a channel may have at most %d bytes"
)

// Session is what the sessions of clients that subscribe implement, beside handler.Client.
type Session interface {
	Subscriptions() *Subscriptions
}

// subsOf returns the subscriptions of the client that sent the command.
func subsOf(c *call) *Subscriptions { return c.Client.(Session).Subscriptions() }

// Rows returns the commands to publish and subscribe. A message reaches the clients of this node at once or not at all: it is not kept,
// logged or sent to other nodes. walk has a command call do for every client's subscriptions, in steps, and then end.
func (t *Topics) Rows(walk func(c *call, do func(*Subscriptions), end func())) []row {
	const quick = spec.PubSub | spec.Loading | spec.Stale
	sub := handler.Rows[call]("pubsub", "O(n) for n subscriptions", quick)
	message := handler.Rows[call]("pubsub", "O(n + m) for n subscribers and m patterns of all clients", quick|spec.Fast)
	// Shard channels count as keys, since clients choose a node by them.
	sharded := func(r row, last int) row {
		r.FirstKey, r.LastKey, r.Step, r.KeyFlags = 1, last, 1, []string{"not_key"}
		return r
	}
	some := func(name string) spec.Argument { return spec.Optional(spec.Several(spec.Text(name))) }
	of := func(what string) handler.Maker[call] {
		return handler.Rows[call]("pubsub", "O(n) for n "+what+"s", quick|spec.Client)
	}
	subscribe := func(name, summary, what string, kind Kind) row {
		r := of(what)(name, -2, 0, summary, func(c *call) { subscribe(c, kind, strings.ToLower(name), c.Args[1:]) }, spec.Several(spec.Text(what)))
		if r.Channels = spec.AllChannels; kind == Pattern {
			r.Channels = spec.ChannelPatterns
		}
		return r
	}
	unsubscribe := func(name, summary, what string, kind Kind) row {
		return of(what)(name, -1, 0, summary, func(c *call) { unsubscribe(c, kind, strings.ToLower(name), c.Args[1:]) }, some(what))
	}
	publish := func(name string, kind Kind) row {
		r := message(name, 3, 0, "Sends a message to the subscribers of a channel; returns how many there are.", nil, spec.Text("channel"), spec.Text("message"))
		r.Channels = spec.OneChannel
		r.Walk = func(c *call, keys handler.Keyspace) { t.publish(c, keys, kind) }
		return r
	}
	pattern := spec.Argument{Name: "pattern", Kind: "pattern", Optional: true}
	return []row{
		subscribe("SUBSCRIBE", "Subscribes to channels.", "channel", Channel),
		subscribe("PSUBSCRIBE", "Subscribes to patterns of channels.", "pattern", Pattern),
		sharded(subscribe("SSUBSCRIBE", "Subscribes to shard channels.", "shardchannel", Shard), -1),
		unsubscribe("UNSUBSCRIBE", "Ends subscriptions to channels; to all, if none is named.", "channel", Channel),
		unsubscribe("PUNSUBSCRIBE", "Ends subscriptions to patterns; to all, if none is named.", "pattern", Pattern),
		sharded(unsubscribe("SUNSUBSCRIBE", "Ends subscriptions to shard channels; to all, if none is named.", "shardchannel", Shard), -1),
		publish("PUBLISH", Channel),
		sharded(publish("SPUBLISH", Shard), 1),
		handler.Container("PUBSUB", "pubsub", "A container for commands about subscriptions.",
			sub("CHANNELS", -2, 0, "Lists the channels that clients subscribe to.", namesOf(walk, Channel), pattern),
			sub("NUMSUB", -2, 0, "Counts the subscribers of channels.", t.counts(Channel), some("channel")),
			sub("NUMPAT", 2, 0, "Counts the patterns that clients subscribe to.", func(c *call) { c.Int(int64(t.Len(Pattern))) }),
			sub("SHARDCHANNELS", -2, 0, "Lists the shard channels that clients subscribe to.", namesOf(walk, Shard), pattern),
			sub("SHARDNUMSUB", -2, 0, "Counts the subscribers of shard channels.", t.counts(Shard), some("shardchannel")),
		),
	}
}

// publishStep is how many clients get a message in a step.
const publishStep = 64

// stepsMost is the most steps of a search for receivers that cannot yield: some 20 ms.
const stepsMost = 200

// receivers begins to find the receivers of the command's message. ok is false if the channel is too long, which is replied.
func (t *Topics) receivers(c *call, kind Kind) (find Search, ok bool) {
	switch longest := t.LongestChannel(); {
	case len(c.Args[1]) > MaxBytes:
		c.Fail(ErrLongChannel)
		return find, false
	case kind == Channel && len(c.Args[1]) > longest:
		c.Fail(fmt.Sprintf(ErrChannelForPatterns, longest))
		return find, false
	}
	return t.Search(kind, c.Args[1]), true
}

// publish sends a message to the subscribers of a channel, and replies with their number. From a transaction or a script, the message leaves
// when that is stored.
func (t *Topics) publish(c *call, keys handler.Keyspace, kind Kind) {
	find, ok := t.receivers(c, kind)
	if !ok {
		return
	}
	m := message{c.Args[1], c.Args[2]}
	keep := func() {
		m = m.clone()
		find.Channel = m.channel
	}
	found, sent := false, 0
	c.InSteps(keep, func() bool {
		if !found {
			if found = find.Step(); found && len(find.All) > 0 {
				m = m.clone()
			}
			if !found && !keys.Spend(handler.MatchMost/stepsMost) {
				return true
			}
		} else {
			last := min(len(find.All), sent+publishStep)
			if !c.Then(m.size()+(last-sent)*ReceiverSize, &mailing{m, find.All[sent:last]}) {
				c.Step.End(engine.ErrTooMany)
				return true
			}
			sent = last
		}
		c.Holds = int64(m.size() + len(find.All)*ReceiverSize)
		if !found || sent < len(find.All) {
			return false
		}
		c.Int(int64(sent))
		return true
	})
}

// mailing is a message on its way to some of its receivers.
type mailing struct {
	message
	to []Receiver
}

// Happen implements handler.Effect.
func (m *mailing) Happen(*handler.Call) {
	for i := range m.to {
		m.send(&m.to[i])
	}
}

// message is a message to subscribers, in the forms in which they get it.
type message struct {
	channel, text []byte
}

// size returns how many bytes the message has.
func (m *message) size() int { return len(m.channel) + len(m.text) }

// clone returns a copy, which outlives the command's words.
func (m *message) clone() message { return message{bytes.Clone(m.channel), bytes.Clone(m.text)} }

// send sends the message to a subscriber. A client that does not read is closed when it is over
// client-output-buffer-limit, which bounds what the server keeps for it.
func (m *message) send(to *Receiver) {
	n, word := 3, "message"
	switch to.Kind {
	case Pattern:
		n, word = 4, "pmessage"
	case Shard:
		word = "smessage"
	}
	b := resp.AppendPush(make([]byte, 0, len(m.channel)+len(m.text)+len(to.Pattern)+64), to.Owner.Proto(), n)
	b = resp.AppendBulkString(b, word)
	if to.Kind == Pattern {
		b = resp.AppendBulkString(b, to.Pattern)
	}
	b = resp.AppendBulk(b, m.channel)
	to.Owner.Deliver(resp.AppendBulk(b, m.text))
}

// subscribe replies once for each name, as Redis does, in RESP3 with a push.
func subscribe(c *call, kind Kind, word string, names [][]byte) {
	subs := subsOf(c)
	for _, name := range names {
		if kind == Pattern && len(name) > glob.MaxPattern {
			c.Fail(spec.ErrPatternTooLong)
			break
		}
		if !subs.Add(kind, name) {
			c.Fail(ErrTooManyChannels)
			break
		}
		reportTo(c, kind, word, name)
	}
	subs.Owner.CountSubs()
}

func unsubscribe(c *call, kind Kind, word string, names [][]byte) {
	subs := subsOf(c)
	if len(names) == 0 {
		for _, name := range subs.List(kind) {
			names = append(names, []byte(name))
		}
		if len(names) == 0 {
			reportTo(c, kind, word, nil)
			return
		}
	}
	for _, name := range names {
		subs.Remove(kind, name)
		reportTo(c, kind, word, name)
	}
	subs.Owner.CountSubs()
}

// reportTo replies with what was just done and the number of subscriptions now. name is nil
// if there was nothing to end.
func reportTo(c *call, kind Kind, word string, name []byte) {
	c.Push(3)
	c.Text(word)
	if name == nil {
		c.Null()
	} else {
		c.Bulk(name)
	}
	c.Int(subsOf(c).Shown(kind))
}

// namesOf replies with the names of a kind that clients subscribe to, of those that match the pattern if there is one.
func namesOf(walk func(c *call, do func(*Subscriptions), end func()), kind Kind) func(*call) {
	return func(c *call) {
		if len(c.Args) > 3 {
			c.Fail("ERR wrong number of arguments for 'pubsub|" + strings.ToLower(resp.Excerpt(c.Args[1])) + "' command")
			return
		}
		pattern := (*glob.Pattern)(nil)
		if len(c.Args) == 3 {
			var ok bool
			if pattern, ok = glob.Compile(c.Args[2]); !ok {
				c.Fail(spec.ErrPatternTooLong)
				return
			}
		}
		list(c, walk, kind, pattern)
	}
}

// seenSize is roughly the memory that a map uses for a name.
const seenSize = 64

// list is namesOf with a pattern, nil for any name. A step looks at the names of one client.
func list(c *call, walk func(c *call, do func(*Subscriptions), end func()), kind Kind, pattern *glob.Pattern) {
	var found []byte
	seen, most := make(map[string]bool), int(c.OutputLimit())
	walk(c, func(other *Subscriptions) {
		if len(found) > most {
			return
		}
		for _, name := range other.List(kind) {
			if !seen[name] && (pattern == nil || pattern.Match([]byte(name))) {
				seen[name] = true
				found = resp.AppendBulk(found, []byte(name))
			}
		}
		c.Holds = int64(cap(found) + len(seen)*seenSize)
	}, func() {
		if len(found) > most {
			c.Fail("ERR the reply would be over client-output-buffer-limit: use a pattern")
			return
		}
		c.Array(len(seen))
		c.Out = append(c.Out, found...)
	})
}

// counts replies with the number of subscribers of each name.
func (t *Topics) counts(kind Kind) func(*call) {
	return func(c *call) {
		c.Array(2 * (len(c.Args) - 2)) // no map in RESP3 either, as in Redis
		for _, name := range c.Args[2:] {
			c.Bulk(name)
			c.Int(t.Count(kind, name))
		}
	}
}
