package rulebook

import (
	"limitdb/engine"
	"limitdb/server/handler"
)

// A check with WAIT. It is parked like other commands that wait: see handler.Wait. When the rules change, it is asked
// again under the new ones, and keeps its place.

// waiting is a check that waits.
type waiting struct {
	check
	book  *Book
	c     *call
	w     *engine.Waiter
	words [][]byte // of the command, to ask again
}

// ask asks the engine for a check that has been parsed, and replies when it is decided. before is the wait that
// it continues, or nil. It reports whether it has replied.
func (b *Book) ask(c *call, k *check, words [][]byte, before *engine.Waiter) (done bool) {
	if err := k.Match(k.cost); err != nil {
		c.Fail(errorText(err, words[1]))
		return true
	}
	own := &waiting{check: k.found(), book: b, c: c, words: words}
	if own.charge(); len(own.Charges) == 0 {
		own.count(c.Lane, false)
		own.reply(c)
		return true
	}
	w := &engine.Waiter{All: &own.all, Until: c.Now}
	own.w = w
	switch {
	case before != nil:
		w.Owner, w.Until = before.Owner, before.Until
		w.InPlaceOf(before)
	case c.Client != nil:
		c.Client.MayWait(w, k.wait)
	}
	if !c.States().Ask(c.Now, nil, w) {
		own.decided(nil)
		return true
	}
	if before == nil {
		own.words = handler.CloneArgs(words) // the read buffer goes
	}
	c.Client.Await(w, handler.Wait{Reply: own.decided, Size: own.size(), Outdated: own.outdated, Anew: own.anew})
	return false
}

// chargeSize is roughly the memory for one limit that a check waits for, beside its key.
const chargeSize = 256

// size returns roughly the memory that the check holds while it waits.
func (k *waiting) size() int64 {
	n := handler.ArgBytes(k.words)
	for i := range k.Charges {
		n += int64(len(k.Charges[i].Key)) + chargeSize
	}
	return n
}

// outdated reports whether the check is under rules that are no longer in force.
func (k *waiting) outdated() bool { return k.force != k.book.force.Load() }

// anew asks again for a check that was withdrawn because the rules have changed. It reports whether it has replied.
func (k *waiting) anew() (done bool) {
	next := k.book.check()
	defer k.book.done(next)
	if text := next.parse(k.book, k.words[1:]); text != "" {
		k.c.Fail(text)
		return true
	}
	return k.book.ask(k.c, next, k.words, k.w)
}

// decided replies with the decision on a check that may have waited.
func (k *waiting) decided([]byte) {
	if _, _, err := k.w.Result(); err != nil {
		k.c.Fail(errorText(err, nil))
		return
	}
	k.count(k.c.Lane, k.w.All.At >= 0)
	k.log(k.c, k.c.Now)
	k.reply(k.c)
}
