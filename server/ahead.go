package server

import (
	"sync"

	"limitdb/engine"
	"limitdb/rules"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// ahead holds commands that were read but have not run yet. A decision on a key outside the
// caches mostly waits for memory. When the engine knows the keys of a pipeline before the first
// decision, it lets those waits overlap.
//
// Only commands of one key that run at once are queued (spec.Ahead, and no WAIT), and only
// while mayQueue holds. So a client cannot distinguish this from running them one by one.
type ahead struct {
	n      int
	cmds   [aheadMost]*command
	keys   [aheadMost][]byte
	places [aheadMost]engine.Place
	plans  [aheadMost]*request.Plan // what the commands ask for; nil: the handler parses it
	ends   [aheadMost]int           // where the words of the commands without a plan end in words
	words  [][]byte

	made [aheadMost]request.Plan // room for the plans
	last *request.Plan           // of the session's remembered command, if that is the last with a plan
}

const (
	aheadMost = 64
	// aheadFew is the least number of keys for which fetching them first pays.
	aheadFew = 4
)

// add queues a command. Its words are valid as long as the reader's buffer.
func (a *ahead) add(cmd *command, p *request.Plan, key []byte) {
	a.cmds[a.n], a.plans[a.n], a.keys[a.n], a.ends[a.n] = cmd, p, key, len(a.words)
	a.n++
}

// queue queues the next command if it may wait for the ones after it. Otherwise it returns false
// and the result of the reader. It makes the checks of refusal that mayQueue leaves.
func (s *session) queue(a *ahead) (args [][]byte, err error, ok bool) {
	keyMost := int(s.srv.set.MaxKeyLen.Get())
	m := s.remembered
	if m != nil {
		if key := s.rd.NextOf(&m.shape, keyMost); key != nil {
			if a.last == nil {
				a.last = &m.plan
			}
			m.missed = 0
			a.add(m.cmd, a.last, key)
			return nil, nil, true
		}
	}
	args, err = s.rd.Next()
	if err != nil || args == nil {
		return args, err, false
	}
	cmd := s.find(args[0])
	if cmd == nil || cmd.Flags&spec.Ahead == 0 || !cmd.ArityOK(len(args)) || len(args[1]) > keyMost || rules.IsKey(args[1]) {
		return args, nil, false
	}
	p := &a.made[a.n]
	switch {
	case cmd.Plan == nil || cmd.Plan(&s.srv.parts.Zones, args, p) != "":
		a.words = append(a.words, args...) // the slices, not the bytes
		a.add(cmd, nil, args[1])
		return nil, nil, true
	case p.Given&request.OwnWait != 0:
		return args, nil, false
	}
	if m == nil {
		m = &remembered{missed: 1}
		s.remembered = m
	}
	if m.missed++; m.worth() {
		s.rd.Shape(&m.shape)
		m.cmd, a.last = cmd, p
	}
	a.add(cmd, p, args[1])
	return nil, nil, true
}

// runQueue runs the queued commands in order.
func (s *session) runQueue(a *ahead) {
	warm := a.n >= aheadFew
	if warm {
		s.srv.states().Warm(a.keys[:a.n], a.places[:])
	}
	start := 0
	for i := range a.n {
		if !s.life.Open() {
			break
		}
		if warm {
			s.call.Place = a.places[i]
		}
		if p := a.plans[i]; p != nil {
			s.invokePlan(a.cmds[i], p, a.keys[i])
		} else {
			s.invoke(a.cmds[i], a.words[start:a.ends[i]:a.ends[i]], 0)
			start = a.ends[i]
		}
		s.call.Place = 0
		if len(s.call.Out) >= flushAt {
			s.flush()
		}
	}
	if s.remembered != nil && a.last != nil && a.last != &s.remembered.plan {
		s.remembered.plan = *a.last
	}
	a.n, a.words, a.last = 0, a.words[:0], nil
}

// warmAhead fetches the key of the running command, its argument i, together with the keys of those behind it that begin with
// the same bytes. They are not queued: such a command may turn out to be long, and the session must be able to yield behind it.
func (c *call) warmAhead(i int) {
	s := c.client
	if s == nil || s.multi != nil {
		return
	}
	if s.warm > 0 {
		s.warm--
		return
	}
	a := s.srv.queues.get()
	defer s.srv.queues.put(a)
	a.keys[0] = c.Args[i]
	s.warm = s.rd.Ahead(i, a.keys[1:])
	if n := s.warm + 1; n >= aheadFew {
		c.States().Warm(a.keys[:n], a.places[:])
	}
}

// aheadPool lends a queue for one batch.
type aheadPool struct{ pool sync.Pool }

func (p *aheadPool) get() *ahead {
	if a, ok := p.pool.Get().(*ahead); ok {
		return a
	}
	return &ahead{words: make([][]byte, 0, aheadMost*8)}
}

// put takes a queue back. Its pointers into read buffers may point to overwritten bytes. They
// are harmless, because they are set again before they are read.
func (p *aheadPool) put(a *ahead) {
	a.n, a.words, a.last = 0, a.words[:0], nil
	p.pool.Put(a)
}
