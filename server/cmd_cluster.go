package server

import (
	"errors"
	"time"

	"limitdb/resp"
)

// Cluster and replication: this server stands alone, and says so.
func clusterCommands() []command {
	const conn = flagFast | flagLoading | flagStale | flagConn
	alone := func(s *session, _ [][]byte) { s.fail(errNoCluster) }
	row := func(name string, arity int, f flags, summary string, run func(*session, [][]byte), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f, group: "cluster", since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	integer := func(name string) argument { return argument{name: name, kind: "integer"} }
	return []command{
		row("CLUSTER", -2, flagStale, "An error: cluster support is disabled.", alone,
			argument{name: "subcommand", kind: "string"}, argument{name: "argument", kind: "string", optional: true, multiple: true}),
		row("READONLY", 1, conn, "An error: cluster support is disabled.", alone),
		row("READWRITE", 1, conn, "An error: cluster support is disabled.", alone),
		row("ASKING", 1, flagFast|flagConn, "An error: cluster support is disabled.", alone),
		row("WAIT", 3, flagConn, "Replies 0 at once: there are no replicas to wait for.", (*session).wait,
			integer("numreplicas"), integer("timeout")),
		row("WAITAOF", 4, flagConn, "Replies 0 and 0 at once: there is no log and no replica to wait for.", (*session).waitAOF,
			integer("numlocal"), integer("numreplicas"), integer("timeout")),
		row("ROLE", 1, flagFast|flagLoading|flagStale|flagAdmin, "Replies that this is a master without replicas.", func(s *session, _ [][]byte) {
			s.array(3)
			s.text("master")
			s.int(0)
			s.array(0)
		}),
	}
}

// wait does not wait: no replica could ever come to acknowledge a write.
func (s *session) wait(args [][]byte) {
	if _, ok := resp.ParseInt(args[1]); !ok {
		s.fail(errNotInt)
		return
	}
	if s.goodTimeout(args[2]) {
		s.int(0)
	}
}

func (s *session) waitAOF(args [][]byte) {
	local, ok1 := resp.ParseInt(args[1])
	replicas, ok2 := resp.ParseInt(args[2])
	switch {
	case !ok1 || !ok2:
		s.fail(errNotInt)
	case local < 0 || local > 1:
		s.fail(errWaitAOFRange)
	case replicas < 0:
		s.fail(errNumReplicas)
	case !s.goodTimeout(args[3]):
	case local == 1 && !s.logged():
		s.fail(errWaitAOF)
	case local == 1:
		s.waitSync(args[3])
	default:
		s.array(2)
		s.int(0)
		s.int(0)
	}
}

// logged reports whether a log is kept.
func (s *session) logged() bool { return s.srv.durable.stats().Log }

// waitSync replies 1 and 0 when all until now is durable, or 0 and 0 if that
// takes longer than a timeout in milliseconds, 0 for none, or fails.
func (s *session) waitSync(timeout []byte) {
	ms, _ := resp.ParseInt(timeout) // goodTimeout has seen it
	d := &s.srv.durable
	s.inBackground(func() error {
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
		s.array(2)
		s.int(int64(yesNo(err == nil)))
		s.int(0)
	})
}

// maxWait is a timeout beyond which there is none.
const maxWait = 24 * time.Hour

// errLate is the end of a wait.
var errLate = errors.New("it takes too long")

// goodTimeout checks a timeout in milliseconds and replies with the error if it is none.
func (s *session) goodTimeout(arg []byte) bool {
	ms, ok := resp.ParseInt(arg)
	switch {
	case !ok:
		s.fail(errTimeoutNotInt)
	case ms < 0:
		s.fail(errTimeoutNegative)
	default:
		return true
	}
	return false
}
