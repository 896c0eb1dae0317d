//go:build plants

package engine

import (
	"testing"

	"limitdb/internal/plant"
)

func TestPlantedBugsAreCaught(t *testing.T) {
	plant.Check(t, []plant.Bug{
		{"string-without-a-head-changed-in-part", "parts.go", "!it.written && journal.CanChange(byte(had), it.State) {", "!it.written && it.kind != 0 && len(it.State) >= journal.MinChanged {", "TestChangesFromStatesOfAnyLength"},
		{"change-applied-twice", "parts.go", "case ahead > 0:", "case ahead > 1<<20:", "TestPartsGiveTheTableAgain"},
		{"late-change-without-its-revision", "splice.go", "	journal.SetRevision(it.head, it.revision)\n", "", "TestSplicesOfLongValues"},
		{"late-change-read-too-early", "txn.go", "		return it.spliceLate()\n", "		return nil\n", "TestPartsGiveTheTableAgain"},
		{"copied-while-owed-and-changed-in-part", "copy.go", "if recorded != kind && s.changes != nil {", "if false {", "TestPartsGiveTheTableAgain"},
		{"revision-from-before-a-payment", "parts.go", "journal.SetRevision(next[:n], journal.Revision(was[:n]))", "_ = n", "TestPartsGiveTheTableAgain"},
		{"new-state-changed-in-part", "parts.go", "		c.recordWhole(sp.Key)\n		return nil\n", "		return nil\n", "TestNewLongStatesAreWhole"},
		{"change-behind-a-cut-not-noted", "parts.go", "o.since, c.due.keys[name{string(sp.Key), sp.Beside}].since}", "o.since}", "TestNewLongStatesAreWhole"},
		{"expired-limit-changed-in-part", "parts.go", " && o.since.Expires() > c.journal.floor.Load() {", " {", "TestRecordWhole"},
		{"gate-not-entered", "txn.go", "			t.gate = j.gate\n			t.gate.Enter()\n", "", "TestCutHasAllOfATakeAll"},
		{"owed-not-paid-before-a-group", "txn_commit.go", "			s.payFirst(&it.Spot)\n", "", "TestWhatIsOwedIsPaidBeforeAGroup"},
		{"owed-not-paid-before-a-flush", "journal.go", "		for n := range c.due.keys {\n			s.pay(n, &c.due.paid)\n		}\n", "", "TestWhatIsOwedIsPaidBeforeAGroup"},
		{"wake-up-lost", "txn_commit.go", "		t.stirred = append(t.stirred, q)\n", "", "TestWaitSteps"},
		{"wake-up-lost-in-a-crowd", "ask.go", "	s.waits.LookSoon(q)\n", "", "TestAllGiveUp"},
		{"wake-up-without-an-alarm", "wait/wait.go", "	l.alarms.set(q, q.deadline())\n	return nil\n", "	return nil\n", "TestQueueSteps"},
		{"head-that-leaves-wakes-nobody", "ask.go", "		w.engine.serve(now, a.from)\n", "", "TestWaitSteps"},
		{"turn-told-too-early", "ask.go", " || a.why == isReady && q.Due() > t.now", "", "TestTurnBeforeItsTime"},
		{"queue-of-a-long-log-left-due", "txn_commit.go", "			it.written = false // a denial that has moved nothing: see park\n", "", "TestWaitForLongLog"},
		{"queue-that-was-left-forgotten", "ask.go", "		e.lookSoon(a.from)\n", "", "TestLookAtAnotherQueue"},
		{"own-pace-move-seen-as-a-change", "behind.go", "t.watches || ", "", "TestStepThatBeginsAgain"},
		{"hold-outlives-its-step", "hold.go", "if !mayKnowIDs(it) || it.Beside {", "if it.s.table.Besides() == 0 || it.Beside {", "TestStepHoldsAndRemoves"},
		{"ids-outlive-their-key", "txn_values.go", "err == nil && t.items[at].kind != 0 {", "false {", "TestForget"},
		{"count-of-a-step-that-begins-again", "txn.go", "t.gate, t.asking = nil, nil\n\tt.tallies.forget()\n", "t.gate, t.asking = nil, nil\n", "TestStepThatBeginsAgain"},
		{"waiter-of-a-step-that-begins-again", "behind.go", "t.asking = nil\n\tt.tallies.forget()\n", "t.tallies.forget()\n", "TestStepThatBeginsAgain"},
		{"decision-of-a-step-that-begins-again", "behind.go", "		it.revert()\n		it.hasUnder, it.allowed, it.denied, it.touched, it.used = false, 0, 0, false, false\n", "		_ = it\n", "TestStepThatBeginsAgain"},
		{"lease-that-survives-its-commit", "holdlist.go", "case !dry && !e.Settled():", "case false:", "TestLeasesThatAreHeld"},
		{"lease-given-back-twice", "holdlist.go", "case !dry && !e.Settled():", "case !dry:", "TestLeasesThatAreHeld"},
		{"lease-of-another-request", "txn_together.go", "			if err == nil && has {", "			if err == nil && has && r.Peek {", "TestLeasesThatAreHeld"},
		{"hold-settled-twice", "hold.go", "	if e.Settled() {\n		s.Again", "	if e.Status > hold.Cancelled {\n		s.Again", "TestHoldsModel"},
		{"hold-that-is-sent-again-taken-again", "hold.go", "= set.Find(t.now, r.Hold.ID, &e); r", "= set.Find(t.now, r.Hold.ID, &e) && !e.Live(t.now); r", "TestHoldsModel"},
		{"estimate-returned-twice", "hold.go", "giveBackOf(state, t.now, &l, e, e.Amount, void, *buf)", "giveBackOf(state, t.now, &l, e, 2*e.Amount, void, *buf)", "TestHoldsModel"},
		{"estimate-returned-and-still-counted", "hold.go", "		e.Back, e.Amount = e.Amount, e.Amount-back\n", "		e.Back = e.Amount - 0*back\n", "TestHoldsModel"},
		{"hold-that-survives-its-cancel", "hold.go", "	set.Change(&t.holds, t.now, &e)\n	if", "	if as == hold.Cancelled {\n		return nil\n	}\n	set.Change(&t.holds, t.now, &e)\n	if", "TestHoldsModel"},
		{"cancel-that-stops-no-later-hold", "hold.go", "		e = hold.Entry{ID: id, Status: hold.Cancelled, Until: t.now + Remembered, Amount: cancelledFirst}\n", "		if e.Until = 0; e.Until == 0 {\n			return nil\n		}\n", "TestHoldsModel"},
		{"return-after-the-window", "hold.go", "limit.Return(l, state, now, e.Back, amount, dst)", "limit.Return(l, state, now, max(e.Back, now+1), amount, dst)", "TestHoldsModel"},
		{"return-after-a-reset", "hold.go", "	if e.Taken() <= void || amount == 0 {", "	if e.Taken() <= void-1<<62 || amount == 0 {", "TestHoldsModel"},
		{"back-when-a-block-is-forgotten", "hold.go", "it.kind == limit.BLOCK && h.Once == nil {", "it.kind == limit.Kind(0) && h.Once == nil {", "TestHoldsModel"},
		{"held-twice-by-the-short-way", "holdat.go", "known || err != nil {", "known && key == nil || err != nil {", "TestHoldsModel"},
		{"another-request-granted-by-its-id", "once.go", " && binary.LittleEndian.Uint64(e.Limit) == o.Asked", "", "TestOnceModel"},
		{"turn-forgotten-when-asked-again", "once.go", "e.Back > now {", "e.Back > now+1<<62 {", "TestOnceModel"},
		{"repetition-not-counted-by-the-short-way", "holdat.go", "	p.s.held[onceRepeated]++\n", "", "TestShortWayCountsRepetitions"},
		{"amount-cut-to-a-byte", "../hold/set.go", "uint64(e.Amount) < 1<<8", "uint64(e.Amount) < 1<<9", "TestSetModel"},
		{"turn-left-out-of-an-entry", "../hold/set.go", "e.Back|e.Rest == 0 && ", "", "TestSetModel"},
		{"record-written-over-what-it-is-made-of", "table/beside.go", "if sp.r.has(state) || sp.r.has(beside) {", "if sp.r.has(nil) {", "TestBeside"},
		{"another-hold-granted-again-by-the-short-way", "holdat.go", " && string(p.known.Limit) == string(p.s.short.askedOf(l, nil))", "", "TestShortWayGrantsAHoldAgain"},
		{"hold-granted-again-when-it-is-over", "hold.go", "return e.Live(now) && e.Rest", "return e.Rest", "TestShortWayGrantsAHoldAgain"},
		{"settled-twice-by-the-short-way", "holdat.go", " || p.known.Settled()", "", "TestHoldsModel"},
		{"due-return-passed-by-the-short-way", "holdat.go", "		if set.Due(p.now) {\n			return false, errBehind\n		}\n", "", "TestShortWayGivesBackFirst"},
		{"short-way-without-its-splices", "holdat.go", "c.splices = appendSplices(c.splices[:0], w)", "c.splices = c.splices[:0]", "TestHoldsModel"},
		{"half-of-a-hold-without-memory", "holdat.go", "	if s.table.Find(&p.key); next != nil {\n", "	if s.table.Find(&p.key); next == nil {\n", "TestRefusedHoldTakesNothing"},
		{"refused-hold-left-in-the-log", "holdat.go", "		c.buf.Cut(beside, end-beside)", "		c.buf.Cut(end, 0)", "TestHoldsWithoutMemory"},
		{"hold-stored-without-its-record", "holdat.go", "		beside = c.set(limit.HOLDS, p.key.Key, set)", "		beside = len(c.buf.Bytes)", "TestHoldsModel"},
		{"key-evicted-by-the-short-way-for-its-own-hold", "holdat.go", "s.table.Pin(&p.key, true)", "s.table.Pin(&p.key, false)", "TestKeyIsNotEvictedForItsHold"},
		{"key-evicted-for-its-own-hold", "table/beside.go", "			sp.r.pin(true)\n			_, err", "			sp.r.pin(false)\n			_, err", "TestKeyIsNotEvictedForItsOwn"},
		{"owed-key-not-paid-before-a-hold", "holdat.go", "		s.payFirst(&p.key)\n", "", "TestWhatIsOwedIsPaidBeforeAHold"},
		{"denial-refused-by-the-short-way", "holdat.go", "err == table.ErrNoRoom { // of a denial that counts", "err == errBehind {", "TestDenialsOfIDsWithoutMemory"},
		{"set-not-copied-when-it-has-moved", "table/walk.go", ", Beside: r.kind() == limit.HOLDS})", "})", "./TestCopyOfASetThatMoves"},
		{"hold-of-after-a-reset-void", "../hold/edit.go", "	case e.Status <= Returning && e.Taken() <= s.Void():\n		return s.anew(w, now, e, seed)\n", "", "./TestHoldsTakenWhenTheKeyIsReset"},
		{"set-lost-with-its-key", "table/table.go", "		leave(t, sp)\n		return\n", "		t.drop(sp)\n", "TestBeside"},
	})
}
