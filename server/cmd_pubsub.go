package server

import (
	"bytes"
	"fmt"
	"strings"

	"limitdb/engine"
	"limitdb/internal/glob"
	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/pubsub"
	"limitdb/server/spec"
)

// pubsubRows are the commands to publish and subscribe. A message reaches the clients of this
// node at once or not at all: it is not kept, logged or sent to other nodes.
func pubsubRows() []row {
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
	subscribe := func(name, summary, what string, kind pubsub.Kind) row {
		return of(what)(name, -2, 0, summary, func(c *call) { c.subscribe(kind, strings.ToLower(name), c.Args[1:]) }, spec.Several(spec.Text(what)))
	}
	unsubscribe := func(name, summary, what string, kind pubsub.Kind) row {
		return of(what)(name, -1, 0, summary, func(c *call) { c.unsubscribe(kind, strings.ToLower(name), c.Args[1:]) }, some(what))
	}
	publish := func(name string, kind pubsub.Kind) row {
		r := message(name, 3, 0, "Sends a message to the subscribers of a channel; returns how many there are.", nil, spec.Text("channel"), spec.Text("message"))
		r.Walk = func(c *call, keys handler.Keyspace) { c.publish(keys, kind) }
		return r
	}
	pattern := spec.Argument{Name: "pattern", Kind: "pattern", Optional: true}
	return []row{
		subscribe("SUBSCRIBE", "Subscribes to channels.", "channel", pubsub.Channel),
		subscribe("PSUBSCRIBE", "Subscribes to patterns of channels.", "pattern", pubsub.Pattern),
		sharded(subscribe("SSUBSCRIBE", "Subscribes to shard channels.", "shardchannel", pubsub.Shard), -1),
		unsubscribe("UNSUBSCRIBE", "Ends subscriptions to channels; to all, if none is named.", "channel", pubsub.Channel),
		unsubscribe("PUNSUBSCRIBE", "Ends subscriptions to patterns; to all, if none is named.", "pattern", pubsub.Pattern),
		sharded(unsubscribe("SUNSUBSCRIBE", "Ends subscriptions to shard channels; to all, if none is named.", "shardchannel", pubsub.Shard), -1),
		publish("PUBLISH", pubsub.Channel),
		sharded(publish("SPUBLISH", pubsub.Shard), 1),
		handler.Container("PUBSUB", "pubsub", "A container for commands about subscriptions.",
			sub("CHANNELS", -2, 0, "Lists the channels that clients subscribe to.", subscribed(pubsub.Channel), pattern),
			sub("NUMSUB", -2, 0, "Counts the subscribers of channels.", subscriberCounts(pubsub.Channel), some("channel")),
			sub("NUMPAT", 2, 0, "Counts the patterns that clients subscribe to.", func(c *call) { c.Int(int64(c.srv.topics.Len(pubsub.Pattern))) }),
			sub("SHARDCHANNELS", -2, 0, "Lists the shard channels that clients subscribe to.", subscribed(pubsub.Shard), pattern),
			sub("SHARDNUMSUB", -2, 0, "Counts the subscribers of shard channels.", subscriberCounts(pubsub.Shard), some("shardchannel")),
		),
	}
}

// publishStep is how many clients get a message in a step.
const publishStep = 64

// searchMost is the most steps of a search for receivers that cannot yield: some 20 ms.
const searchMost = 200

// search begins to find the receivers of the command's message. ok is false if the channel is too long, which is replied.
func (c *call) search(kind pubsub.Kind) (find pubsub.Search, ok bool) {
	switch longest := c.srv.topics.LongestChannel(); {
	case len(c.Args[1]) > pubsub.MaxBytes:
		c.Fail(errLongChannel)
		return find, false
	case kind == pubsub.Channel && len(c.Args[1]) > longest:
		c.Fail(fmt.Sprintf(errChannelForPatterns, longest))
		return find, false
	}
	return c.srv.topics.Search(kind, c.Args[1]), true
}

// publish sends a message to the subscribers of a channel, and replies with their number. From a transaction or a script, the message leaves
// when that is stored.
func (c *call) publish(keys handler.Keyspace, kind pubsub.Kind) {
	find, ok := c.search(kind)
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
			if !found && !keys.Spend(handler.MatchMost/searchMost) {
				return true
			}
		} else {
			last := min(len(find.All), sent+publishStep)
			if !c.Then(m.size()+(last-sent)*pubsub.ReceiverSize, &mailing{m, find.All[sent:last]}) {
				c.Step.End(engine.ErrTooMany)
				return true
			}
			sent = last
		}
		c.Holds = int64(m.size() + len(find.All)*pubsub.ReceiverSize)
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
	to []pubsub.Receiver
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
func (m *message) send(to *pubsub.Receiver) {
	s := to.Owner.(*session)
	proto, n, word := resp.RESP2, 3, "message"
	if s.pub.RESP3.Load() {
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
	s.pub.Deliver(resp.AppendBulk(b, m.text))
}

// subscribe replies once for each name, as Redis does, in RESP3 with a push.
func (c *call) subscribe(kind pubsub.Kind, word string, names [][]byte) {
	for _, name := range names {
		if kind == pubsub.Pattern && len(name) > glob.MaxPattern {
			c.Fail(spec.ErrPatternTooLong)
			break
		}
		if !c.client.subs.Add(kind, name) {
			c.Fail(errTooManyChannels)
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
	c.Push(3)
	c.Text(word)
	if name == nil {
		c.Null()
	} else {
		c.Bulk(name)
	}
	c.Int(c.client.subs.Shown(kind))
}

func subscribed(kind pubsub.Kind) func(*call) {
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
		c.subscribedTo(kind, pattern)
	}
}

// seenSize is roughly the memory that a map uses for a name.
const seenSize = 64

// subscribedTo replies with the names of a kind that clients subscribe to, those that match
// pattern unless it is nil. A step looks at the names of one client.
func (c *call) subscribedTo(kind pubsub.Kind, pattern *glob.Pattern) {
	var found []byte
	seen, most := make(map[string]bool), int(c.OutputLimit())
	c.srv.clients.Walk(c.inner(), 1, func(other *clients.Client) {
		if other.SubCount() == 0 || len(found) > most {
			return
		}
		for _, name := range other.Subs.List(kind) {
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

func subscriberCounts(kind pubsub.Kind) func(*call) {
	return func(c *call) {
		c.Array(2 * (len(c.Args) - 2)) // no map in RESP3 either, as in Redis
		for _, name := range c.Args[2:] {
			c.Bulk(name)
			c.Int(c.srv.topics.Count(kind, name))
		}
	}
}

// dropSubscriptions ends all subscriptions without a reply.
func (s *session) dropSubscriptions() {
	s.subs.Clear()
	s.publishSubs()
}

// publishSubs publishes the size of the subscriptions to other goroutines.
func (s *session) publishSubs() {
	s.pub.CountSubs()
}
