package rulebook

import (
	"fmt"
	"math"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// RL.ENVOY answers a request of Envoy's rate limit service: a domain, and descriptors, each of which is judged by itself. A domain is a namespace: one
// that has a tree of descriptors (envoytree.go), or one of ordinary rules (envoyrules.go). In any other nothing is limited.

// envoyRow is the row of RL.ENVOY.
func envoyRow(b *Book) row {
	r := handler.Rows[call]("rules", "O(n) for n entries of descriptors", spec.Write|spec.Wide|spec.Decides|spec.Across)(
		"RL.ENVOY", -3, 0, "Answers a request of Envoy's rate limit service: takes for each descriptor by itself.", nil,
		spec.Text("domain"), spec.Integer("numdescriptors"),
		spec.Argument{Name: "descriptor", Kind: "block", Multiple: true, Args: []spec.Argument{
			spec.Integer("numentries"),
			{Name: "entry", Kind: "block", Optional: true, Multiple: true, Args: []spec.Argument{spec.Text("key"), spec.Text("value")}},
			{Name: "hits", Kind: "integer", Token: "HITS", Optional: true},
			spec.Optional(spec.Word("REFUND")),
			{Name: "limit", Kind: "block", Token: "LIMIT", Optional: true, Args: []spec.Argument{spec.Integer("requests"), spec.Text("unit")}},
		}})
	r.Route, r.Example = 1, "RL.ENVOY edge 1 1 remote_address 192.0.2.1"
	r.Prepare, r.Do = func(c *call) (handler.Prepared, string) { return prepareEnvoy(b, c) }, func(c *call, t *txn) { c.Prepared.(envoyRequest).decide(c, t) }
	return r
}

// An envoyRequest is RL.ENVOY in progress.
type envoyRequest interface {
	handler.Prepared
	// decide decides on all descriptors in one step, one after the other, and replies.
	decide(c *call, t *txn)
}

// prepareEnvoy parses a request, and finds the limits of its descriptors and the keys of their callers.
func prepareEnvoy(b *Book, c *call) (handler.Prepared, string) {
	all, text := descriptorsOf(c.Args[2:])
	if text == "" {
		text = b.secret.missing()
	}
	if text != "" {
		return nil, text
	}
	if d := b.Domain(string(c.Args[1])); d != nil {
		return b.prepareTree(c, d, all)
	}
	return b.prepareRules(c, all)
}

// descriptorsOf parses the words after the domain.
func descriptorsOf(words [][]byte) (all []rules.Descriptor, text string) {
	n, ok := resp.ParseInt(words[0])
	if !ok || n < 1 || n > rules.MaxDescriptors {
		return nil, fmt.Sprintf("ERR numdescriptors must be an integer from 1 to %d: %s", rules.MaxDescriptors, resp.Quote(words[0]))
	}
	words = words[1:]
	for all = make([]rules.Descriptor, 0, n); n > 0; n-- {
		d := rules.Descriptor{Hits: 1}
		if words, text = parseDescriptor(&d, words); text != "" {
			return nil, inDescriptor(text, len(all))
		}
		all = append(all, d)
	}
	if len(words) > 0 {
		return nil, "ERR syntax error: there is more after the last descriptor: " + resp.Quote(words[0])
	}
	return all, ""
}

// inDescriptor adds to an error in which descriptor it is.
func inDescriptor(text string, at int) string { return fmt.Sprintf("%s (descriptor %d)", text, at+1) }

// parseDescriptor parses one descriptor, and returns the words after it.
func parseDescriptor(d *rules.Descriptor, words [][]byte) (rest [][]byte, text string) {
	if len(words) == 0 {
		return nil, "ERR numentries is missing"
	}
	n, ok := resp.ParseInt(words[0])
	words = words[1:]
	if !ok || n < 0 || n > int64(len(words)/2) {
		return nil, "ERR numentries must be an integer, and that many keys and values must follow"
	}
	d.Entries = make([]rules.Entry, n)
	for i := range d.Entries {
		d.Entries[i], words = rules.Entry{Key: string(words[0]), Value: string(words[1])}, words[2:]
	}
	for len(words) > 0 {
		left := len(words) - 1
		switch word := words[0]; {
		case resp.EqualFold(word, "HITS") && left > 0:
			n, ok := resp.ParseInt(words[1])
			if !ok || n < 0 {
				return nil, fmt.Sprintf("ERR HITS must be an integer from 0 to %d: %s", int64(math.MaxInt64), resp.Quote(words[1]))
			}
			d.Hits, words = uint64(n), words[2:]
		case resp.EqualFold(word, "REFUND"):
			d.Negative, words = true, words[1:]
		case resp.EqualFold(word, "LIMIT") && left > 1:
			n, ok := resp.ParseInt(words[1])
			unit, known := rules.ParseUnit(string(words[2]))
			switch {
			case !ok || n < 0 || n > math.MaxUint32:
				return nil, fmt.Sprintf("ERR LIMIT must have from 0 to %d requests: %s", uint32(math.MaxUint32), resp.Quote(words[1]))
			case !known:
				return nil, "ERR LIMIT needs a unit, SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR, not " + resp.Quote(words[2])
			}
			d.Override, words = &rules.Rate{PerUnit: uint32(n), Unit: unit}, words[3:]
		default:
			return words, ""
		}
	}
	return nil, ""
}

// A status is what the service answers for one descriptor.
type status struct {
	over      bool
	requests  int64 // of the limit; -1: nothing limits the descriptor
	unit      string
	name      string
	remaining int64
	reset     int64 // seconds; -1: unknown
}

// replyEnvoy replies with the overall code and the statuses.
func replyEnvoy(c *call, statuses []status) {
	overall := int64(0)
	for i := range statuses {
		overall |= code(statuses[i].over)
	}
	c.Array(2)
	c.Int(overall)
	c.Array(len(statuses))
	for i := range statuses {
		s := &statuses[i]
		c.Array(6)
		c.Int(code(s.over))
		c.Int(s.requests)
		c.Text(s.unit)
		c.Text(s.name)
		c.Int(s.remaining)
		c.Int(s.reset)
	}
}

// code returns the number of a status: 1 over the limit, and else 0.
func code(over bool) int64 {
	if over {
		return 1
	}
	return 0
}
