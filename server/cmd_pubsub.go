package server

import (
	"strings"

	"limitdb/internal/glob"
	"limitdb/resp"
	"limitdb/server/pubsub"
)

// pubsubCommands are the commands to publish and subscribe. Client libraries subscribe to learn
// of events such as failovers. The server accepts and counts subscriptions, but never publishes
// anything.
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
	publish := func(c *call) { c.int(0) }
	message := []argument{{name: "channel", kind: "string"}, {name: "message", kind: "string"}}
	return []command{
		row("SUBSCRIBE", -2, own, "O(n) for n channels", "Subscribes to channels; nothing is ever published.", on(pubsub.Channel, "subscribe"), many("channel")),
		row("PSUBSCRIBE", -2, own, "O(n) for n patterns", "Subscribes to patterns of channels; nothing is ever published.", on(pubsub.Pattern, "psubscribe"), many("pattern")),
		sharded(row("SSUBSCRIBE", -2, own, "O(n) for n channels", "Subscribes to shard channels; nothing is ever published.", on(pubsub.Shard, "ssubscribe"), many("shardchannel")), -1),
		row("UNSUBSCRIBE", -1, own, "O(n) for n channels", "Ends subscriptions to channels; to all, if none is named.", off(pubsub.Channel, "unsubscribe"), some("channel")),
		row("PUNSUBSCRIBE", -1, own, "O(n) for n patterns", "Ends subscriptions to patterns; to all, if none is named.", off(pubsub.Pattern, "punsubscribe"), some("pattern")),
		sharded(row("SUNSUBSCRIBE", -1, own, "O(n) for n channels", "Ends subscriptions to shard channels; to all, if none is named.", off(pubsub.Shard, "sunsubscribe"), some("shardchannel")), -1),
		row("PUBLISH", 3, quick|flagFast, "O(1)", "Returns 0, the number of clients that got the message: no client gets it.", publish, message...),
		sharded(row("SPUBLISH", 3, quick|flagFast, "O(1)", "Returns 0, the number of clients that got the message: no client gets it.", publish, message...), 1),
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
