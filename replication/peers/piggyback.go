package peers

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Raft sends heartbeats beside its entries, because a follower could answer them while it writes its log. Here it cannot: see Transport. And
// while there are no entries, Raft sends a message without any, from which followers learn what is committed, as often as it sends heartbeats.
// So each message is a heartbeat as well, and those that go on their own double the messages of a node with many groups. A heartbeat therefore
// waits until some messages have begun after it, and has the answer to the last of them. So what Raft concludes from the answer is true.
//
// If messages do not come any more, or fail, the heartbeat is sent after all.

const (
	// nextWithin is how soon after an answer Raft sends the next message: in twice raft.Config.CommitTimeout, and a little.
	nextWithin = 110 * time.Millisecond
	// rides is by how many messages a heartbeat is replaced: its answer is that of the last. Each message alone is what a heartbeat would be.
	rides = 8
	// piggybackFrom is the least heartbeat timeout with which heartbeats may wait that long.
	piggybackFrom = 4 * nextWithin
)

// piggyback has heartbeats to a peer wait for messages.
type piggyback struct {
	mu      sync.Mutex // guards all
	coming  bool       // the last message was answered, and the next is not late yet
	late    *time.Timer
	sent    uint64 // messages
	waiting []*heartbeat
}

// heartbeat is one that waits.
type heartbeat struct {
	term uint64
	left int                             // how many messages are to begin until the one whose answer it has
	by   uint64                          // the number of that message, or 0
	told chan raft.AppendEntriesResponse // the message's answer; closed if the heartbeat must be sent
}

func newPiggyback() *piggyback {
	p := &piggyback{}
	p.late = time.AfterFunc(nextWithin, p.isLate)
	return p
}

// wait returns a heartbeat that waits, or nil if no message is coming.
func (p *piggyback) wait(term uint64) *heartbeat {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.coming {
		return nil
	}
	h := &heartbeat{term: term, left: rides, told: make(chan raft.AppendEntriesResponse, 1)}
	p.waiting = append(p.waiting, h)
	return h
}

// replaces reports whether messages have replaced a heartbeat, whose answer it then sets. It waits for them, unless none is coming, until stop
// is closed.
func (p *piggyback) replaces(term uint64, resp *raft.AppendEntriesResponse, stop <-chan struct{}) bool {
	h := p.wait(term)
	if h == nil {
		return false
	}
	select {
	case answer, ok := <-h.told:
		if ok {
			*resp = answer
		}
		return ok
	case <-stop:
		return false
	}
}

// begins notes that a message is sent, and returns its number.
func (p *piggyback) begins(term uint64) (number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	for _, h := range p.waiting {
		if h.term != term {
			continue
		}
		if h.left--; h.left == 0 {
			h.by = p.sent
		}
	}
	return p.sent
}

// ended notes the answer to a message, if it came. A peer that rejects the message because of its log says nothing of heartbeats.
func (p *piggyback) ended(number uint64, resp *raft.AppendEntriesResponse, came bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !came || !resp.Success {
		p.giveUp()
		return
	}
	kept := p.waiting[:0]
	for _, h := range p.waiting {
		switch {
		case h.by == number:
			h.told <- *resp
		case h.by == 0 && h.term != resp.Term: // of a term that is over
			close(h.told)
		default:
			kept = append(kept, h)
		}
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
	p.coming = true
	p.late.Reset(nextWithin)
}

func (p *piggyback) isLate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveUp()
}

// giveUp has the heartbeats that wait sent, and those to come, until the next answer. The lock is held.
func (p *piggyback) giveUp() {
	p.coming = false
	p.late.Stop()
	for _, h := range p.waiting {
		close(h.told)
	}
	clear(p.waiting)
	p.waiting = p.waiting[:0]
}
