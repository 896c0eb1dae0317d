package peers

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A heartbeat has the answer to a message that was sent after it, some others later, in its term, and was accepted. Else it is sent itself, at the latest when the
// next message is late.
func TestHeartbeatsThatWait(t *testing.T) {
	const sent, waits, answered = "sent", "waits", "answered"
	type step struct {
		do     string
		number uint64 // of the message, or the term of a heartbeat
		want   string // what has become of the last heartbeat
	}
	all := []step{{"begin", 1, ""}, {"accept", 1, ""}, {"heartbeat", 7, waits}}
	for n := uint64(2); n < 2+rides; n++ {
		after := waits
		if n == 1+rides {
			after = answered
		}
		all = append(all, step{"pass", 100, waits}, step{"begin", n, waits}, step{"accept", n, after})
	}
	for _, c := range []struct {
		name  string
		whole bool // it waits for all messages, not only the next
		steps []step
	}{
		{"before any message", false, []step{{"heartbeat", 7, sent}}},
		{"a message after it", false, []step{{"begin", 1, ""}, {"accept", 1, ""}, {"heartbeat", 7, waits}, {"begin", 2, waits}, {"accept", 2, answered}}},
		{"the message in flight is older", false, []step{{"begin", 1, ""}, {"accept", 1, ""}, {"begin", 2, ""}, {"heartbeat", 7, waits}, {"accept", 2, waits}, {"begin", 3, waits}, {"accept", 3, answered}}},
		{"no message comes", false, []step{{"begin", 1, ""}, {"accept", 1, ""}, {"pass", 60, ""}, {"heartbeat", 7, waits}, {"pass", 49, waits}, {"pass", 1, sent}, {"heartbeat", 7, sent}}},
		{"the message takes long", false, []step{{"begin", 1, ""}, {"accept", 1, ""}, {"heartbeat", 7, waits}, {"begin", 2, waits}, {"pass", 110, sent}, {"accept", 2, sent}, {"heartbeat", 7, waits}}},
		{"the message fails", false, []step{{"begin", 1, ""}, {"accept", 1, ""}, {"heartbeat", 7, waits}, {"begin", 2, waits}, {"fail", 2, sent}, {"heartbeat", 7, sent}, {"begin", 3, sent}, {"accept", 3, sent}, {"heartbeat", 7, waits}}},
		{"the message is rejected", false, []step{{"begin", 1, ""}, {"accept", 1, ""}, {"heartbeat", 7, waits}, {"begin", 2, waits}, {"reject", 2, sent}}},
		{"of an earlier term", false, []step{{"begin", 1, ""}, {"accept", 1, ""}, {"heartbeat", 6, waits}, {"begin", 2, waits}, {"accept", 2, sent}}},
		{"two at once", false, []step{{"begin", 1, ""}, {"accept", 1, ""}, {"begin", 2, ""}, {"heartbeat", 7, waits}, {"begin", 3, waits}, {"accept", 2, waits}, {"accept", 3, answered}}},
		{"some messages replace it", true, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPiggyback()
				defer p.late.Stop()
				state := ""
				var last *heartbeat
				for i, s := range c.steps {
					switch s.do {
					case "heartbeat":
						if last, state = p.wait(s.number), waits; last == nil {
							state = sent
						} else if !c.whole {
							last.left = 1
						}
					case "begin":
						if n := p.begins(7); n != s.number {
							t.Fatalf("message %d has the number %d", s.number, n)
						}
					case "accept", "reject":
						p.ended(s.number, &raft.AppendEntriesResponse{Term: 7, LastLog: s.number, Success: s.do == "accept"}, true)
					case "fail":
						p.ended(s.number, &raft.AppendEntriesResponse{}, false)
					case "pass":
						time.Sleep(time.Duration(s.number) * time.Millisecond)
						synctest.Wait()
					}
					if last != nil && state == waits {
						select {
						case resp, ok := <-last.told:
							if state = sent; ok {
								state = answered
								if resp.LastLog != s.number {
									t.Errorf("step %d: the answer is that of message %d", i+1, resp.LastLog)
								}
							}
						default:
						}
					}
					if state != s.want {
						t.Fatalf("step %d, %s %d: the heartbeat is %q, not %q", i+1, s.do, s.number, state, s.want)
					}
				}
			})
		})
	}
}

// A peer to which messages go gets no heartbeats beside them, unless the timeout is too short to wait.
func TestHeartbeatsBesideMessages(t *testing.T) {
	to, from := newTransport(newPeer(t, "to", nil)), newTransport(newPeer(t, "from", nil))
	defer func() { _ = to.Close() }()
	defer func() { _ = from.Close() }()
	heartbeats := 0
	serve := func() {
		rpc := <-to.Consumer()
		args := rpc.Command.(*raft.AppendEntriesRequest)
		if args.PrevLogEntry == 0 {
			heartbeats++
		}
		rpc.Respond(&raft.AppendEntriesResponse{Term: 7, LastLog: args.PrevLogEntry, Success: true}, nil)
	}
	send := func(prev uint64) (resp raft.AppendEntriesResponse, err error) {
		args := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, Addr: []byte("from")}, Term: 7, PrevLogEntry: prev}
		err = from.AppendEntries("to@1", to.LocalAddr(), args, &resp)
		return resp, err
	}
	with := from.piggyback("to@1")
	with.late.Stop() // no time passes
	for _, c := range []struct {
		timeout    time.Duration
		last       uint64
		heartbeats int
	}{{500 * time.Millisecond, 9, 0}, {100 * time.Millisecond, 0, 1}} {
		from.SetHeartbeat(c.timeout)
		heartbeats = 0
		go serve()
		if _, err := send(8); err != nil {
			t.Fatal(err)
		}
		with.late.Stop()
		got := make(chan error, 1)
		go func() {
			resp, err := send(0)
			if err == nil && resp.LastLog != c.last {
				err = errors.New("the answer is another message's")
			}
			got <- err
		}()
		for c.heartbeats == 0 && !with.has() {
			runtime.Gosched()
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			for range rides + c.heartbeats {
				serve()
			}
		}()
		var err error
		for range rides {
			_, failed := send(9)
			with.late.Stop()
			err = errors.Join(err, failed)
		}
		if err = errors.Join(err, <-got); err != nil {
			t.Error(err)
		}
		if <-served; heartbeats != c.heartbeats {
			t.Errorf("with a timeout of %v, the peer gets %d heartbeats", c.timeout, heartbeats)
		}
	}
}

// Raft sends messages so often that heartbeats may wait for them.
func TestMessagesComeInTime(t *testing.T) {
	if every := 2 * raft.DefaultConfig().CommitTimeout; every >= nextWithin {
		t.Errorf("messages come every %v, and heartbeats wait for %v", every, nextWithin)
	}
}

// has reports whether a heartbeat waits.
func (p *piggyback) has() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) > 0
}
