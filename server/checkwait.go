package server

import "limitdb/server/handler"

import "limitdb/engine"

// A check with WAIT. It is parked like other commands that wait: see waiting.go. When the rules change, it is asked
// anew under the new ones, in its old place.

// parsedCheck is a check that waits.
type parsedCheck struct {
	checking
	words [][]byte // of the command, for asking anew
}

// askCheck asks the engine for a check that has been parsed, and replies when it is decided. before is the wait that
// it continues, or nil. It reports whether it has replied.
func (c *call) askCheck(k *checking, words [][]byte, before *waiting) (done bool) {
	if err := k.Match(k.cost); err != nil {
		c.Fail(checkError(err, words[1]))
		return true
	}
	own := &parsedCheck{checking: k.found()}
	if own.charge(); len(own.Charges) == 0 {
		own.count(c.lane(), false)
		c.checked(&own.checking)
		return true
	}
	w := &waiting{Waiter: &engine.Waiter{All: &own.all, Until: c.Now}, cmd: c.cmd, check: own}
	w.reply = func([]byte) { c.answerCheck(w) }
	s := c.client
	switch {
	case before != nil:
		w.cmd, w.Owner, w.Until = before.cmd, s.conn, before.Until
		w.InPlaceOf(before.Waiter)
	case s != nil:
		s.MayWait(w.Waiter, k.wait)
	}
	if !c.srv.states().AskAll(c.Now, w.Waiter) {
		c.answerCheck(w)
		return true
	}
	own.words = words
	if before == nil {
		own.words = handler.CloneArgs(words) // the read buffer goes
	}
	s.pub.argMemory.Store(own.size())
	s.await(w)
	return false
}

// chargeSize is roughly the memory for one limit that a check waits for, beside its key.
const chargeSize = 256

// size returns roughly the memory that the check holds while it waits.
func (k *parsedCheck) size() int64 {
	n := int64(0)
	for _, w := range k.words {
		n += int64(len(w)) + argOverhead
	}
	for i := range k.Charges {
		n += int64(len(k.Charges[i].Key)) + chargeSize
	}
	return n
}

// outdated reports whether w is a check under rules that are no longer in force.
func (w *waiting) outdated(srv *Server) bool {
	return w.check != nil && w.check.force != srv.rules.force.Load()
}

// asksAnew asks again for a check that has been withdrawn because the rules have changed. It reports whether it has
// replied.
func (s *session) asksAnew(w *waiting) (done bool) {
	k := s.srv.checking()
	defer s.srv.doneChecking(k)
	s.call.Failed = false
	if text := k.parse(s.srv, w.check.words[1:]); text != "" {
		s.call.Fail(text)
		done = true
	} else {
		done = s.call.askCheck(k, w.check.words, w)
	}
	if done {
		s.waitEnds(w)
	}
	return done
}

// answerCheck replies with the decision on a check that may have waited.
func (c *call) answerCheck(w *waiting) {
	k := w.check
	if _, _, err := w.Result(); err != nil {
		c.Fail(checkError(err, nil))
		return
	}
	k.count(c.lane(), w.All.At >= 0)
	k.log(c.srv, c.Now)
	c.checked(&k.checking)
}

// rulesChanged makes the checks that wait ask anew.
func (srv *Server) rulesChanged() {
	srv.clients.each(func(s *session) {
		if w := s.pub.waits.Load(); w != nil && w.check != nil {
			s.conn.Wake()
		}
	})
}
