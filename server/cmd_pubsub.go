package server

import (
	"bytes"
	"strings"

	"limitdb/engine"
	"limitdb/internal/glob"
	"limitdb/resp"
	"limitdb/server/pubsub"
)

// pubsubCommands are the commands to publish and subscribe. A message reaches the clients of this
// node at once or not at all: it is not kept, and has no part in the log or in other nodes.
func pubsubCommands() []command {
	const quick = flagPubSub | flagLoading | flagStale
	const own = quick | flagClient
	row := func(name string, arity int, f flags, complexity, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f, group: "pubsub", since: "1.0.0",
			complexity: complexity, summary: summary, args: args, run: run,
		}
	}
	// Shard channels count as keys, since clients choose a node by them.
	sharded := func(c command, last int) command {
		c.firstKey, c.lastKey, c.step, c.keyFlags = 1, last, 1, []string{"not_key"}
		return c
	}
	many := func(name string) argument { return argument{name: name, kind: "string", multiple: true} }
	some := func(name string) argument {
		return argument{name: name, kind: "string", multiple: true, optional: true}
	}
	on := func(kind pubsub.Kind, word string) func(*call) {
		return func(c *call) { c.subscribe(kind, word, c.args[1:]) }
	}
	off := func(kind pubsub.Kind, word string) func(*call) {
		return func(c *call) { c.unsubscribe(kind, word, c.args[1:]) }
	}
	message := []argument{{name: "channel", kind: "string"}, {name: "message", kind: "string"}}
	publish := func(kind pubsub.Kind) command {
		return command{
			arity: 3, flags: quick | flagFast, group: "pubsub", since: "1.0.0", complexity: "O(n + m) for n subscribers and m patterns of all clients",
			summary: "Sends a message to the subscribers of a channel; returns how many they are.", args: message,
			run:    func(c *call) { c.publish(kind) },
			atomic: func(c *call, t *txn) { c.publishIn(t, kind) },
		}
	}
	named := func(c command, name string) command {
		c.name = name
		return c
	}
	return []command{
		row("SUBSCRIBE", -2, own, "O(n) for n channels", "Subscribes to channels.", on(pubsub.Channel, "subscribe"), many("channel")),
		row("PSUBSCRIBE", -2, own, "O(n) for n patterns", "Subscribes to patterns of channels.", on(pubsub.Pattern, "psubscribe"), many("pattern")),
		sharded(row("SSUBSCRIBE", -2, own, "O(n) for n channels", "Subscribes to shard channels.", on(pubsub.Shard, "ssubscribe"), many("shardchannel")), -1),
		row("UNSUBSCRIBE", -1, own, "O(n) for n channels", "Ends subscriptions to channels; to all, if none is named.", off(pubsub.Channel, "unsubscribe"), some("channel")),
		row("PUNSUBSCRIBE", -1, own, "O(n) for n patterns", "Ends subscriptions to patterns; to all, if none is named.", off(pubsub.Pattern, "punsubscribe"), some("pattern")),
		sharded(row("SUNSUBSCRIBE", -1, own, "O(n) for n channels", "Ends subscriptions to shard channels; to all, if none is named.", off(pubsub.Shard, "sunsubscribe"), some("shardchannel")), -1),
		named(publish(pubsub.Channel), "PUBLISH"),
		sharded(named(publish(pubsub.Shard), "SPUBLISH"), 1),
		{
			name: "PUBSUB", arity: -2, group: "pubsub", since: "1.0.0", complexity: "Depends on subcommand.",
			summary: "Container for commands about subscriptions.",
			subs: []command{
				row("CHANNELS", -2, quick, "O(n) for n subscriptions", "Lists the channels that clients subscribe to.", subscribed(pubsub.Channel),
					argument{name: "pattern", kind: "pattern", optional: true}),
				row("NUMSUB", -2, quick, "O(n) for n subscriptions", "Counts the subscribers of channels.", subscriberCounts(pubsub.Channel), some("channel")),
				row("NUMPAT", 2, quick, "O(n) for n subscriptions", "Counts the patterns that clients subscribe to.", func(c *call) {
					c.int(int64(c.srv.topics.Len(pubsub.Pattern)))
				}),
				row("SHARDCHANNELS", -2, quick, "O(n) for n subscriptions", "Lists the shard channels that clients subscribe to.", subscribed(pubsub.Shard),
					argument{name: "pattern", kind: "pattern", optional: true}),
				row("SHARDNUMSUB", -2, quick, "O(n) for n subscriptions", "Counts the subscribers of shard channels.", subscriberCounts(pubsub.Shard), some("shardchannel")),
				row("HELP", 2, flagLoading|flagStale, "O(1)", "Lists the subcommands.", (*call).help),
			},
		},
	}
}

// publishStep is how many clients get a message in a step.
const publishStep = 64

// publish sends a message to the subscribers of a channel, and replies with their number.
func (c *call) publish(kind pubsub.Kind) {
	to := c.srv.topics.Receivers(kind, c.args[1])
	if len(to) == 0 {
		c.int(0)
		return
	}
	m := message{channel: bytes.Clone(c.args[1]), text: bytes.Clone(c.args[2])}
	c.holds = int64(len(m.channel) + len(m.text))
	c.eachStep(len(to), publishStep, nil, func(i int) { m.send(&to[i]) }, func() { c.int(int64(len(to))) })
}

// publishIn is publish in a transaction or a script: the message leaves when that is stored.
func (c *call) publishIn(t *txn, kind pubsub.Kind) {
	to := c.srv.topics.Receivers(kind, c.args[1])
	c.int(int64(len(to)))
	if len(to) == 0 {
		return
	}
	m := message{channel: bytes.Clone(c.args[1]), text: bytes.Clone(c.args[2])}
	if t.held += len(m.channel) + len(m.text); t.held > messagesMost {
		_ = t.note(engine.ErrTooMany)
		return
	}
	t.after = append(t.after, func() {
		for i := range to {
			m.send(&to[i])
		}
	})
}

// messagesMost is the most bytes of messages that a transaction publishes.
const messagesMost = 1 << 20

// message is a message to subscribers, in the forms in which they get it.
type message struct {
	channel, text []byte
}

// send sends the message to a subscriber. A client that does not read is closed when it is over
// client-output-buffer-limit, which bounds what the server keeps for it.
func (m *message) send(to *pubsub.Receiver) {
	s := to.Owner.(*session)
	proto, n, word := resp.RESP2, 3, "message"
	if s.pub.resp3.Load() {
		proto = resp.RESP3
	}
	switch to.Kind {
	case pubsub.Pattern:
		n, word = 4, "pmessage"
	case pubsub.Shard:
		word = "smessage"
	}
	b := resp.AppendPush(make([]byte, 0, len(m.channel)+len(m.text)+len(to.Pattern)+64), proto, n)
	b = resp.AppendBulkString(b, word)
	if to.Kind == pubsub.Pattern {
		b = resp.AppendBulkString(b, to.Pattern)
	}
	b = resp.AppendBulk(b, m.channel)
	s.deliver(resp.AppendBulk(b, m.text))
}

// subscribe replies once for each name, as Redis does, in RESP3 with a push.
func (c *call) subscribe(kind pubsub.Kind, word string, names [][]byte) {
	for _, name := range names {
		if kind == pubsub.Pattern && len(name) > glob.MaxPattern {
			c.fail(errPatternTooLong)
			break
		}
		if !c.client.subs.Add(kind, name) {
			c.fail(errTooManyChannels)
			break
		}
		c.subscription(kind, word, name)
	}
	c.client.publishSubs()
}

func (c *call) unsubscribe(kind pubsub.Kind, word string, names [][]byte) {
	if len(names) == 0 {
		for _, name := range c.client.subs.List(kind) {
			names = append(names, []byte(name))
		}
		if len(names) == 0 {
			c.subscription(kind, word, nil)
			return
		}
	}
	for _, name := range names {
		c.client.subs.Remove(kind, name)
		c.subscription(kind, word, name)
	}
	c.client.publishSubs()
}

// subscription replies with what was just done and the number of subscriptions now. name is nil
// if there was nothing to end.
func (c *call) subscription(kind pubsub.Kind, word string, name []byte) {
	c.push(3)
	c.text(word)
	if name == nil {
		c.null()
	} else {
		c.bulk(name)
	}
	c.int(c.client.subs.Shown(kind))
}

func subscribed(kind pubsub.Kind) func(*call) {
	return func(c *call) {
		if len(c.args) > 3 {
			c.fail("ERR wrong number of arguments for 'pubsub|" + strings.ToLower(plainCut(c.args[1])) + "' command")
			return
		}
		pattern := (*glob.Pattern)(nil)
		if len(c.args) == 3 {
			var ok bool
			if pattern, ok = glob.Compile(c.args[2]); !ok {
				c.fail(errPatternTooLong)
				return
			}
		}
		c.subscribedTo(kind, pattern)
	}
}

// subscribedTo replies with the names of a kind that clients subscribe to, those that match
// pattern unless it is nil. A step looks at the names of one client.
func (c *call) subscribedTo(kind pubsub.Kind, pattern *glob.Pattern) {
	var found []byte
	seen, most := make(map[string]bool), int(c.outputLimit())
	c.fewClients(1, func(other *session) {
		if other.pub.subscribed.Load() == 0 || len(found) > most {
			return
		}
		for _, name := range other.subs.List(kind) {
			if !seen[name] && (pattern == nil || pattern.Match([]byte(name))) {
				seen[name] = true
				found = resp.AppendBulk(found, []byte(name))
			}
		}
		c.holds = int64(cap(found) + len(seen)*subOverhead)
	}, func() {
		if len(found) > most {
			c.fail("ERR the reply would be over client-output-buffer-limit: use a pattern")
			return
		}
		c.array(len(seen))
		c.out = append(c.out, found...)
	})
}

func subscriberCounts(kind pubsub.Kind) func(*call) {
	return func(c *call) {
		c.array(2 * (len(c.args) - 2)) // no map in RESP3 either, as in Redis
		for _, name := range c.args[2:] {
			c.bulk(name)
			c.int(c.srv.topics.Count(kind, name))
		}
	}
}

// dropSubscriptions ends all subscriptions without a reply.
func (s *session) dropSubscriptions() {
	s.subs.Clear()
	s.publishSubs()
}

// subOverhead is roughly the memory that a map uses for a name beyond its bytes.
const subOverhead = 64

// publishSubs publishes the size of the subscriptions to other goroutines.
func (s *session) publishSubs() {
	before := s.pub.subscribed.Swap(int32(s.subs.Len()))
	switch now := int32(s.subs.Len()); {
	case before == 0 && now > 0:
		s.srv.subscribed.Add(1)
	case before > 0 && now == 0:
		s.srv.subscribed.Add(-1)
	}
	s.pub.subBytes.Store(int64(s.subs.Bytes() + s.subs.Len()*subOverhead))
}
