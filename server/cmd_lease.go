package server

import (
	"bytes"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/request"
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
				Group: "limiter", Complexity: "O(n) for n leases of the key",
				Summary: summary, Args: append([]spec.Argument{key}, args...),
			},
			run: run, atomic: atomic,
		}
	}
	return []command{
		row("RL.LEASE", "jobs 10 30s ID worker-1", -6, spec.Write|spec.Blocking, "Takes a lease: a share of what may be in flight, for a time.", (*call).rlLease, (*call).rlLeaseIn,
			spec.Integer("limit"), ttl, id,
			spec.Argument{Name: "weight", Kind: "integer", Token: "WEIGHT", Optional: true}, request.WaitWord()),
		row("RL.RENEW", "jobs ID worker-1 30s", 5, spec.Write, "Sets when a lease ends; returns its weight.", (*call).rlRenew, (*call).rlRenewIn, id, ttl),
		row("RL.RELEASE", "jobs ID worker-1", 4, spec.Write, "Gives a lease back; returns its weight.", (*call).rlRelease, (*call).rlReleaseIn, id),
		row("RL.HOLDERS", "jobs", 2, spec.Readonly, "Lists the leases of a key, the soonest to end first.", (*call).rlHolders, (*call).rlHoldersIn),
	}
}

// idWord parses "ID token". If it fails, it replies with an error.
func (c *call) idWord(words [][]byte) (id []byte, ok bool) {
	text := request.CheckLeaseID(words[1])
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
	var a request.LeaseArgs
	if text := request.ParseLease(c.Args[2:], &a); text != "" {
		c.Fail(text)
		return
	}
	if a.Given&request.LeaseWait != 0 {
		l := a.Lease
		l.ID = bytes.Clone(a.ID) // the id is read again when the wait is over
		c.askFor(c.Args[1], &waiting{Waiter: engine.Waiter{Request: engine.Request{Lease: &l}}}, a.Wait)
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
	ttl, text := request.ParseTTL(c.Args[4])
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
