package server

import (
	"context"
	"errors"
	"time"

	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// waitRows are the commands that wait for durability.
func waitRows() []row {
	cmd := handler.Rows[call]("cluster", "O(1)", 0)
	return []row{
		cmd("WAIT", 3, spec.Conn|spec.Lead, "Waits until a majority of the nodes has what the connection has seen; returns how many other nodes that is. Returns 0 after the timeout, or at once without raft-addr.", wait,
			spec.Integer("numreplicas"), spec.Integer("timeout")),
		cmd("WAITAOF", 4, spec.NoMulti|spec.Client|spec.Conn, "Waits until the log is synced, if numlocal is 1; there are no replicas to wait for.", waitAOFCommand,
			spec.Integer("numlocal"), spec.Integer("numreplicas"), spec.Integer("timeout")),
	}
}

// wait replies with the number of other nodes that surely have what the connection has seen: all but one of a
// majority. For a standalone server it is 0.
func wait(c *call) {
	if _, ok := resp.ParseInt(c.Args[1]); !ok {
		c.Fail(spec.ErrNotInt)
		return
	}
	if !goodTimeout(c, c.Args[2]) {
		return
	}
	g, r := c.group, c.group.Replication
	if r == nil || c.client == nil {
		c.Int(0)
		return
	}
	ms, _ := resp.ParseInt(c.Args[2]) // goodTimeout has checked it
	others, gone := 0, c.client.leaves()
	all := []group.Share{{Group: g, Turn: c.client.turn}}
	if c.srv.several() {
		all = nil
		for _, g := range c.srv.every {
			if turn, leads := g.Keeper.Leading(); leads {
				all = append(all, group.Share{Group: g, Turn: turn})
			}
		}
	}
	var elsewhere *gathered // of a client for which other nodes may have decided
	asks := c.srv.newCall(c.srv.group, c.Began, resp.RESP3, nil)
	if c.srv.several() && c.client.far == nil && c.client.fwd != nil {
		asks.Rights, asks.Origin = c.Rights, c.From()
		elsewhere = &gathered{args: handler.CloneArgs(c.Args)}
	}
	c.Client.Background(func() error {
		done, waits := make(chan error, len(all)+1), 0
		for _, of := range all {
			if k := &of.Group.Keeper; k.Wait(of.Turn, func(err error) { done <- err }) {
				k.Kick()
				waits++
			}
		}
		if elsewhere != nil {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			waits++
			go func() { done <- elsewhere.wait(ctx, &asks) }()
		}
		if err := within(done, waits, ms, gone); err != nil {
			return err
		}
		members, err := r.Members()
		for _, m := range members {
			if m.Voter {
				others++
			}
		}
		others /= 2
		return err
	}, func(err error) {
		switch {
		case err == nil, err == errLate:
			c.Int(int64(others))
		case err.Error() == spec.ErrNoLeader:
			c.Fail(spec.ErrNoLeader)
		default:
			c.Fail(errUnknownOutcome)
		}
	})
}

// wait has the nodes that lead other groups wait for what they have decided.
func (a *gathered) wait(ctx context.Context, c *call) error {
	if _, err := a.ask(ctx, c); err != nil {
		return err
	}
	late := error(nil)
	for _, v := range a.replies {
		if err := v.Err(); err != nil {
			return err
		}
		if v.Int == 0 {
			late = errLate
		}
	}
	return late
}

// within waits until n results have come, and returns the first error among them, or errLate after a number of milliseconds, 0 for no end, or when the
// client is gone.
func within(done <-chan error, n int, ms int64, gone <-chan struct{}) error {
	var late <-chan time.Time
	if ms != 0 && ms <= int64(maxWait/time.Millisecond) {
		timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
		defer timer.Stop()
		late = timer.C
	}
	for range n {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-late:
			return errLate
		case <-gone:
			return errLate
		}
	}
	return nil
}

func waitAOFCommand(c *call) {
	local, ok1 := resp.ParseInt(c.Args[1])
	replicas, ok2 := resp.ParseInt(c.Args[2])
	switch {
	case !ok1 || !ok2:
		c.Fail(spec.ErrNotInt)
	case local < 0 || local > 1:
		c.Fail(errWaitAOFRange)
	case replicas < 0:
		c.Fail(errNumReplicas)
	case !goodTimeout(c, c.Args[3]):
	case local == 1 && !hasLog(c):
		c.Fail(errWaitAOF)
	case local == 1:
		waitSync(c, c.Args[3])
	default:
		c.Array(2)
		c.Int(0)
		c.Int(0)
	}
}

// hasLog reports whether a log is kept.
func hasLog(c *call) bool { return c.srv.durable.Figures().Log }

// waitSync replies 1 and 0 when everything until now is durable. It replies 0 and 0 if that
// fails or takes longer than timeout, in milliseconds, 0 for no timeout.
func waitSync(c *call, timeout []byte) {
	ms, _ := resp.ParseInt(timeout) // goodTimeout has checked it
	d, gone := c.srv.durable, c.client.leaves()
	c.Client.Background(func() error {
		done := d.Syncs.Join(d.Sync)
		err := within(done, 1, ms, gone)
		if err == errLate {
			d.Syncs.Leave(done)
		}
		return err
	}, func(err error) {
		c.Array(2)
		c.Bit(err == nil)
		c.Int(0)
	})
}

// maxWait is the longest timeout. A longer one counts as none.
const maxWait = 24 * time.Hour

// errLate ends a wait that has timed out.
var errLate = errors.New("it takes too long")

// goodTimeout reports whether arg is a timeout in milliseconds. If not, it replies with an error.
func goodTimeout(c *call, arg []byte) bool {
	ms, ok := resp.ParseInt(arg)
	switch {
	case !ok:
		c.Fail(errTimeoutNotInt)
	case ms < 0:
		c.Fail(errTimeoutNegative)
	default:
		return true
	}
	return false
}
