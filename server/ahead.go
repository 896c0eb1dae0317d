package server

import (
	"sync"

	"limitdb/engine"
)

// ahead holds commands that were read but not yet run. A decision on a key
// that is in far memory mostly waits for memory; when the keys of a pipeline are known before the
// first is decided, the engine lets those waits overlap.
//
// Only commands of one key that run at once are queued (flagAhead, and no WAIT), and
// only while nothing unusual is on, so running them later than they were read cannot
// be told from running them one by one.
type ahead struct {
	n      int
	cmds   [aheadMost]*command
	ends   [aheadMost]int // where the words of each end in words
	keys   [aheadMost][]byte
	places [aheadMost]engine.Place
	words  [][]byte
}

const (
	aheadMost = 64
	// aheadFew is the number of keys from which on fetching them first pays.
	aheadFew = 4
)

// mayWait looks for the option that makes a command wait, so that it is not run at once.
func mayWait(words [][]byte) bool {
	for _, w := range words {
		if len(w) == len("WAIT") && foldEqual(w, "WAIT") {
			return true
		}
	}
	return false
}

// add queues a command; the slices of its arguments are copied, not the bytes.
func (a *ahead) add(cmd *command, args [][]byte) {
	a.words = append(a.words, args...)
	a.cmds[a.n], a.keys[a.n], a.ends[a.n] = cmd, args[1], len(a.words)
	a.n++
}

// runQueue runs what was queued, in order.
func (s *session) runQueue(a *ahead) {
	warm := a.n >= aheadFew
	if warm {
		s.srv.engine.Warm(a.keys[:a.n], a.places[:])
	}
	start := 0
	for i := range a.n {
		if !s.life.Open() {
			break
		}
		if warm {
			s.call.place = a.places[i]
		}
		s.invoke(a.cmds[i], a.words[start:a.ends[i]:a.ends[i]], 0)
		s.call.place = 0
		start = a.ends[i]
	}
	a.n, a.words = 0, a.words[:0]
	if len(s.call.out) >= flushAt {
		s.flush()
	}
}

// aheadPool lends a queue for the time of one batch.
type aheadPool struct{ pool sync.Pool }

func (p *aheadPool) get() *ahead {
	if a, ok := p.pool.Get().(*ahead); ok {
		return a
	}
	return &ahead{words: make([][]byte, 0, aheadMost*8)}
}

// put takes a queue back. What it points to may be overwritten or freed: the
// pointers into read buffers are harmless, being reset before they are read.
func (p *aheadPool) put(a *ahead) {
	a.n, a.words = 0, a.words[:0]
	p.pool.Put(a)
}
