package server

import (
	"errors"
	"time"

	"limitdb/resp"
)

// Cluster and replication, as Redis has them. A server that stands alone says so.
func clusterCommands() []command {
	const conn = flagFast | flagLoading | flagStale | flagConn
	alone := func(c *call) { c.fail(errNoCluster) }
	row := func(name string, arity int, f flags, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f, group: "cluster", since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	integer := func(name string) argument { return argument{name: name, kind: "integer"} }
	return []command{
		{
			name: "CLUSTER", arity: -2, group: "cluster", since: "1.0.0", complexity: "O(1)",
			summary: "A container for commands by which clients find the nodes. Without raft-addr, each is an error.", subs: clusterSubs(),
		},
		row("READONLY", 1, conn, "Changes nothing: reads, too, are served by the node that decides. An error without raft-addr.", (*call).direct),
		row("READWRITE", 1, conn, "Changes nothing, as READONLY.", (*call).direct),
		row("ASKING", 1, flagFast|flagConn, "Returns an error: cluster support is disabled.", alone),
		row("WAIT", 3, flagConn, "Returns 0 at once: there are no replicas to wait for.", (*call).wait,
			integer("numreplicas"), integer("timeout")),
		row("WAITAOF", 4, flagClient|flagConn, "Waits until the log is synced, if numlocal is 1; there are no replicas to wait for.", (*call).waitAOF,
			integer("numlocal"), integer("numreplicas"), integer("timeout")),
		row("ROLE", 1, flagFast|flagLoading|flagStale|flagAdmin, "Returns whether this node decides (master) or another does (slave), and which.", (*call).roleReply),
	}
}

// wait replies at once, since there is no replica that could acknowledge a write.
func (c *call) wait() {
	if _, ok := resp.ParseInt(c.args[1]); !ok {
		c.fail(errNotInt)
		return
	}
	if c.goodTimeout(c.args[2]) {
		c.int(0)
	}
}

func (c *call) waitAOF() {
	local, ok1 := resp.ParseInt(c.args[1])
	replicas, ok2 := resp.ParseInt(c.args[2])
	switch {
	case !ok1 || !ok2:
		c.fail(errNotInt)
	case local < 0 || local > 1:
		c.fail(errWaitAOFRange)
	case replicas < 0:
		c.fail(errNumReplicas)
	case !c.goodTimeout(c.args[3]):
	case local == 1 && !c.logged():
		c.fail(errWaitAOF)
	case local == 1:
		c.waitSync(c.args[3])
	default:
		c.array(2)
		c.int(0)
		c.int(0)
	}
}

// logged reports whether a log is kept.
func (c *call) logged() bool { return c.srv.durable.stats().Log }

// waitSync replies 1 and 0 when everything until now is durable. It replies 0 and 0 if that
// fails or takes longer than timeout, in milliseconds, 0 for no timeout.
func (c *call) waitSync(timeout []byte) {
	ms, _ := resp.ParseInt(timeout) // goodTimeout has checked it
	d := &c.srv.durable
	c.inBackground(func() error {
		done := d.syncs.join(d.Sync)
		if ms == 0 || ms > int64(maxWait/time.Millisecond) {
			return <-done
		}
		late := time.NewTimer(time.Duration(ms) * time.Millisecond)
		defer late.Stop()
		select {
		case err := <-done:
			return err
		case <-late.C:
			d.syncs.leave(done)
			return errLate
		}
	}, func(err error) {
		c.array(2)
		c.int(int64(yesNo(err == nil)))
		c.int(0)
	})
}

// maxWait is the longest timeout. A longer one counts as none.
const maxWait = 24 * time.Hour

// errLate ends a wait that has timed out.
var errLate = errors.New("it takes too long")

// goodTimeout reports whether arg is a timeout in milliseconds. If not, it replies with an error.
func (c *call) goodTimeout(arg []byte) bool {
	ms, ok := resp.ParseInt(arg)
	switch {
	case !ok:
		c.fail(errTimeoutNotInt)
	case ms < 0:
		c.fail(errTimeoutNegative)
	default:
		return true
	}
	return false
}
