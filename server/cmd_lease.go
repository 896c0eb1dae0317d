package server

import (
	"bytes"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/server/values"
)

// leaseCommands are the commands of leases, which limit how much may be in flight at a time.
func leaseCommands() []command {
	key := spec.Key("key")
	id := spec.Argument{Name: "token", Kind: "string", Token: "ID"}
	ttl := spec.Text("ttl")
	row := func(name, example string, arity int, f spec.Flags, summary string, run func(*call), atomic func(*call, *values.Txn), args ...spec.Argument) command {
		return command{
			Command: spec.Command{
				Name: name, Example: name + " " + example, Arity: arity, Flags: f | spec.Fast, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Since: "1.0.0", Complexity: "O(n) for n leases of the key",
				Summary: summary, Args: append([]spec.Argument{key}, args...),
			},
			run: run, atomic: atomic,
		}
	}
	return []command{
		row("RL.LEASE", "jobs 10 30s ID worker-1", -6, spec.Write|spec.Blocking, "Takes a lease: a share of what may be in flight, for a time.", (*call).rlLease, (*call).rlLeaseIn,
			spec.Integer("limit"), ttl, id,
			spec.Argument{Name: "weight", Kind: "integer", Token: "WEIGHT", Optional: true}, waitWord()),
		row("RL.RENEW", "jobs ID worker-1 30s", 5, spec.Write, "Sets when a lease ends; returns its weight.", (*call).rlRenew, (*call).rlRenewIn, id, ttl),
		row("RL.RELEASE", "jobs ID worker-1", 4, spec.Write, "Gives a lease back; returns its weight.", (*call).rlRelease, (*call).rlReleaseIn, id),
		row("RL.HOLDERS", "jobs", 2, spec.Readonly, "Lists the leases of a key, the soonest to end first.", (*call).rlHolders, (*call).rlHoldersIn),
	}
}

// leaseArgs are the arguments after the key of RL.LEASE. The id is a slice of the arguments.
type leaseArgs struct {
	limit.Lease
	wait  int64 // ns, negative if not given
	given leaseOptions
}

// leaseOptions is a set of RL.LEASE's options.
type leaseOptions uint8

const (
	leaseID leaseOptions = 1 << iota
	leaseWeight
	leaseWait
)

func leaseOption(word []byte) (o leaseOptions, name string) {
	switch {
	case resp.EqualFold(word, "ID"):
		return leaseID, "ID"
	case resp.EqualFold(word, "WEIGHT"):
		return leaseWeight, "WEIGHT"
	case resp.EqualFold(word, "WAIT"):
		return leaseWait, "WAIT"
	}
	return 0, ""
}

// parseLease parses the limit, the ttl and the options, which may be in any order. It returns the
// text of the error, or "".
func parseLease(words [][]byte, a *leaseArgs) (text string) {
	a.Lease, a.wait, a.given = limit.Lease{Weight: 1}, -1, 0
	var ok bool
	if a.Limit, ok = resp.ParseInt(words[0]); !ok || a.Limit < 0 {
		return "ERR " + limit.ErrMax.Error() + ": " + resp.Quote(words[0])
	}
	if a.TTL, text = parseTTL(words[1]); text != "" {
		return text
	}
	for words = words[2:]; len(words) > 0; words = words[2:] {
		o, name := leaseOption(words[0])
		switch {
		case o == 0:
			return "ERR unknown option " + resp.Quote(words[0]) + " for RL.LEASE"
		case o&a.given != 0:
			return "ERR syntax error: " + name + " is given twice"
		case len(words) < 2:
			return "ERR syntax error: " + name + " without its value"
		}
		a.given |= o
		if text = a.set(o, name, words[1]); text != "" {
			return text
		}
	}
	if a.given&leaseID == 0 {
		return "ERR syntax error: RL.LEASE needs ID token"
	}
	return ""
}

func (a *leaseArgs) set(o leaseOptions, name string, word []byte) (text string) {
	switch o {
	case leaseID:
		a.ID = word
		return checkLeaseID(word)
	case leaseWeight:
		var ok bool
		if a.Weight, ok = resp.ParseInt(word); !ok || a.Weight < 1 {
			return "ERR " + limit.ErrWeight.Error() + ": " + resp.Quote(word)
		}
	case leaseWait:
		var err error
		if a.wait, err = limit.ParseTime(word); err != nil {
			return "ERR " + name + ": " + err.Error()
		}
	}
	return ""
}

// parseTTL parses a positive duration.
func parseTTL(word []byte) (ns int64, text string) {
	ns, err := limit.ParseTime(word)
	switch {
	case err != nil:
		return 0, "ERR ttl: " + err.Error()
	case ns == 0:
		return 0, "ERR " + limit.ErrTTL.Error() + ": " + resp.Quote(word)
	}
	return ns, ""
}

func checkLeaseID(word []byte) (text string) {
	if len(word) < 1 || len(word) > limit.MaxLeaseID {
		return "ERR " + limit.ErrLeaseID.Error() + ": " + resp.Quote(word)
	}
	return ""
}

// idWord parses "ID token". If it fails, it replies with an error.
func (c *call) idWord(words [][]byte) (id []byte, ok bool) {
	text := checkLeaseID(words[1])
	if !resp.EqualFold(words[0], "ID") {
		text = "ERR syntax error: ID token is expected, not " + resp.Quote(words[0])
	}
	if text != "" {
		c.Fail(text)
		return nil, false
	}
	return words[1], true
}

func (c *call) rlLease() {
	var a leaseArgs
	if text := parseLease(c.Args[2:], &a); text != "" {
		c.Fail(text)
		return
	}
	if a.given&leaseWait != 0 {
		l := a.Lease
		l.ID = bytes.Clone(a.ID) // the id is read again when the wait is over
		c.askFor(c.Args[1], &waiting{Waiter: engine.Waiter{Request: engine.Request{Lease: &l}}}, a.wait)
		return
	}
	var d limit.Decision
	c.decided(c.Args[1], limit.LEASE, &d, c.srv.states().Lease(c.Now, c.Args[1], &a.Lease, &d))
	c.worked((d.Limit - d.Remaining) / leaseWork) // each holder has a weight of at least 1
}

func (c *call) rlRenew() {
	id, ok := c.idWord(c.Args[2:])
	if !ok {
		return
	}
	ttl, text := parseTTL(c.Args[4])
	if text != "" {
		c.Fail(text)
		return
	}
	n, size, err := c.srv.states().Renew(c.Now, c.Args[1], id, ttl)
	c.worked(int64(size) / leaseBytes)
	c.weight(c.Args[1], n, err)
}

func (c *call) rlRelease() {
	if id, ok := c.idWord(c.Args[2:]); ok {
		n, size, err := c.srv.states().Release(c.Now, c.Args[1], id)
		c.worked(int64(size) / leaseBytes)
		c.weight(c.Args[1], n, err)
	}
}

// weight replies with a lease's weight, or with the error if there is one.
func (c *call) weight(key []byte, n int64, err error) {
	if err != nil {
		c.Fail(c.limitErrorOf(err, key, limit.LEASE))
		return
	}
	c.Int(n)
}

func (c *call) rlHolders() {
	var found []byte
	n := 0
	err := c.srv.states().Holders(c.Now, c.Args[1], func(h limit.Holder) {
		found = resp.AppendArray(found, 3)
		found = resp.AppendBulk(found, h.ID)
		found = resp.AppendInt(found, h.Weight)
		found = resp.AppendInt(found, limit.Milliseconds(h.End-c.Now))
		n++
	})
	if err != nil {
		c.Fail(c.limitErrorOf(err, c.Args[1], limit.LEASE))
		return
	}
	c.worked(int64(n) / leaseWork)
	c.Array(n)
	c.Out = append(c.Out, found...)
}

// What a step on a key of leases takes the time of one decision for: so many holders, or so many
// bytes of its state.
const (
	leaseWork  = 16
	leaseBytes = 512
)
