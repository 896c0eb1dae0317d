//go:build plants

package server

import (
	"testing"

	"limitdb/internal/plant"
)

func TestPlantedBugsAreCaught(t *testing.T) {
	const once, waits = "TestForwardedCommandsAreAnsweredOnce", "TestEachWaitEndsOnce"
	plant.Check(t, []plant.Bug{
		{"text-keeps-its-tag", "../value/string.go", "if body[0] != tagRaw {", "if false {", "TestOverwrite"},
		{"change-of-a-script-recorded-whole", "scripts.go", "if splices != nil {", "if false {", "TestScriptsChangeLongValuesInParts"},
		{"forwarded-reply-lost", "forward.go", "		if f.hidden > 0 {\n", "		if f.hidden > 0 || l.answered == 1 && f.head == 1 {\n			if f.hidden == 0 && whole {\n				f.pass()\n				l.answered++\n				f.hidden++\n			}\n", once},
		{"forwarded-reply-twice", "forward.go", "append(append(s.call.Out, l.part...), b...)", "append(append(append(s.call.Out, l.part...), b...), b...)", once},
		{"unknown-outcome-told-as-refused", "forward.go", "f.fail(l, errUnknownOutcome)", "f.fail(l, \"CLUSTERDOWN\")", once},
		{"unknown-outcome-sent-again", "forward.go", "case cause == uplink.Refused:", "case cause != uplink.Finished:", once},
		{"command-passes-those-forwarded", "forward.go", "	if f == nil || len(f.slots) == 0 || f.collected == 0 && len(f.free) > 0 {\n", "	if f != nil {\n", once},
		{"refused-commands-behind-later-ones", "forward.go", "slices.Concat(again, f.back)", "slices.Concat(f.back, again)", once},
		{"parked-commands-lost", "forward.go", "	back := f.back\n", "	back := f.back[:0]\n", once},
		{"unknown-outcome-of-do-sent-again", "http.go", "cause == uplink.Refused && len(out) == 0", "cause != uplink.Closed && len(out) == 0", "TestForwardingHTTP"},
		{"following-node-decides", "admission.go", "case p == byItself && special&specialFollowing != 0 && c.cmd.Leads() && !c.here:", "case false:", "TestAdmission"},
		{"script-takes-any-key", "admission.go", "		if text == \"\" {\n			text = checkKeys(", "		if false {\n			text = checkKeys(", "TestAdmission"},
		{"exec-admits-all-that-was-queued", "multi.go", "_, text := c.admit(inExec, special)", "text := \"\"", "TestAdmission"},
		{"end-of-a-pause-wakes-nobody", "pause/pause.go", "return p.applies(cmd) && p.Held.Add(", "return p.applies(cmd) || p.Held.Add(", "TestEndOfAPauseWakes"},
		{"end-of-work-wakes-nobody", "pending.go", "		w.over.Store(true)\n		s.conn.Wake()\n", "		w.over.Store(true)\n", waits},
		{"any-wake-up-ends-work", "pending.go", "if !w.over.Load() {", "if false {", waits},
		{"held-command-runs-twice", "pending.go", "	s.pending = nil\n	s.pub.ArgMemory.Store(0)\n", "	s.pub.ArgMemory.Store(0)\n", waits},
		{"decision-told-twice", "pending.go", "	w.ends(s)\n	return true\n}\n\n// ends", "	w.ends(s)\n	return s.eof\n}\n\n// ends", waits},
		{"reply-let-go-with-those-before-it", "owed.go", "		o.told = o.told || told\n", "		o.covered = len(o.b)\n", "TestRepliesWaitForTheDisk"},
		{"late-command-begins", "admission.go", "s.far.Leased()", "true", "TestLateCommandDoesNotBegin"},
		{"held-command-begins-late", "pending.go", "|| !s.mayBegin() {", "{", "TestLateCommandBehindAPause"},
		{"stamp-of-any-age", "../uplink/lease.go", "now-stamp <= most", "now >= stamp", "TestNoCommandBeginsLate"},
		{"error-told-at-once", "owed.go", "!c.Reveals(cmd)", "c.Failed", "TestDeposedLeaderTellsNothing"},
		{"error-over-http-told-at-once", "http.go", "return !c.refused && c.Reveals", "return !c.Failed && c.Reveals", "TestDeposedLeaderTellsNoError"},
		{"error-of-exec-told-at-once", "multi.go", "!c.Undecided {", "false {", "TestDeposedLeaderTellsNoError"},
		{"effect-happens-twice", "command.go", "		t.Begin(et)\n", "		t.Txn, t.Err = et, nil\n", "TestEffectsHappenOnce"},
		{"hold-logged-again", "limits/plan.go", "p.Op == request.Hold && o.hold.Again:", "false:", "./TestDecisionsAreLogged"},
		{"holds-of-several-logged-again", "limits/takeall.go", "r.Hold != nil && r.Hold.Again {", "false {", "./TestDecisionsAreLogged"},
		{"effect-of-what-is-not-stored", "command.go", "t.Over(c.inner(), err == nil)", "t.Over(c.inner(), true)", "TestEffectsHappenOnce"},
		{"reply-lets-go-of-itself", "owed.go", "if (told || s.owed.owing()) && s.hold(told) {", "if told && s.owed.owing() && s.hold(told) {", "TestRepliesWaitForTheDisk"},
		{"reply-passes-those-owed", "owed.go", "if (told || s.owed.owing()) && s.hold(told) {", "if told && s.hold(told) {", "TestRepliesWaitForTheDisk"},
		{"reply-after-a-wait-let-go-too-early", "batch.go", "cmd != nil && !away {", "cmd != nil && away {", "TestRepliesWaitForTheDisk"},
		{"slot-of-the-last-key", "group/shares.go", "	case NoSlot, of:\n", "	default:\n", "./TestCrossSlot"},
		{"script-leaves-its-slot", "scripts.go", "!= h.slot {", "!= h.slot && false {", "TestCrossSlot"},
		{"reply-waits-for-one-group", "group/shares.go", "if a.left.Add(-1) == 0 {", "if a.left.Add(-1) >= 0 {", "./TestRepliesOfSeveralGroups"},
		{"reply-of-a-lost-group-told", "group/shares.go", "a.isLost(sp.of)", "false", "./TestRepliesOfSeveralGroups"},
		{"replies-of-two-turns", "group/shares.go", "old.Turn = 0", "old.Turn = t.Turn", "./TestRepliesOfSeveralGroups"},
		{"refused-commands-words-run", "ahead.go", "start = end // the next", "_ = end // the next", "TestPipelineOfWhichSomeIsRefused"},
		{"early-reply-passes-those-before-it", "forward.go", "case at == f.head:", "case true:", "TestRoundModel"},
		{"refused-command-loses-its-place", "forward.go", "at, f.free = f.free[0], f.free[1:]", "at, f.free = f.free[len(f.free)-1], f.free[:len(f.free)-1]", "TestRoundOfWhichSomeIsRefused"},
		{"refused-commands-in-the-order-of-legs", "forward.go", "	f.over(left)\n", "	slices.Reverse(left)\n	f.over(left)\n", "TestRoundOfWhichSomeIsRefused"},
		{"parked-replies-without-bound", "forward.go", "f.live >= parkedMost && l.slots", "f.live >= 1<<40 && l.slots", "TestParkedReplies"},
		{"reply-beside-a-round-told-at-once", "forward.go", "h.waits = h.all.Await(&h.shares, kicks(f.s))", "h.waits = false", "TestRoundOfWhichSomeIsLost"},
		{"plan-of-another-nodes-command-lost", "ahead.go", "	case a.last != &a.made[last]:", "	case true:", "TestLearnedFromAnotherNodesCommand"},
		{"plan-learned-for-those-before-it", "ahead.go", "	case last == 0:\n", "	case false:\n", "TestLearnedForTheNextCommand"},
		{"watch-of-another-leader", "forward.go", "m.lost || m.stream != nil && m.stream != st", "m.lost", "TestForwardedWatch"},
		{"watch-of-a-leader-that-was", "multi.go", "m.stream != nil || following", "following", "TestForwardedWatch"},
		{"part-told-before-it-is-durable", "crossing/crossing.go", "k.Withholds() && k.Wait(p.turn", "false && k.Wait(p.turn", "TestUnknown"},
		{"look-told-before-it-is-durable", "crossing/crossing.go", "	if k.AckLeader.Load() || !k.Withholds() {\n", "	if k.AckLeader.Load() || k.Withholds() {\n", "TestDeniedLate"},
		{"part-taken-in-another-turn", "crossing/crossing.go", "	case shown && p.turn != turn:\n", "	case shown && turn == 0:\n", "TestLeaderless"},
		{"lease-of-a-part-not-given-back", "crossing/part.go", "		if l != nil {\n", "		if l != nil && n == 0 {\n", "TestDeniedLate"},
		{"part-without-rights", "pending.go", "	text = c.refusal(byItself, special)\n", "	text = \"\"\n", "TestPartsAreOfNodes"},
		{"part-of-any-namespace", "pending.go", "!ok || !bytes.HasPrefix(name, callers)", "!ok || len(name)+len(callers) == 0", "TestPartsAreOfNodes"},
		{"client-knows-parts", "run.go", "		if s.far != nil && string(args[0]) == partOf {\n", "		if string(args[0]) == partOf {\n", "TestPartsAreOfNodes"},
		{"following-node-decides-a-part", "pending.go", "	case special&specialFollowing != 0:\n", "	case false:\n", "TestSeveralNodesAreLost"},
		{"part-told-at-once", "pending.go", "	s.tell(&c.cmd.Command, mark)\n", "	_ = mark\n", "TestSeveralNodesAreDurable"},
		{"part-told-with-ack-leader", "pending.go", "c.Failed, c.Quorum, c.Durable = false, p.Lasts(), false", "c.Failed, c.Quorum, c.Durable = false, false, false", "TestSeveralNodesAreDurable"},
		{"lost-part-told-as-refused", "forward/lines.go", "cause == uplink.Refused && !begun", "!begun", "./TestSeveralNodesAreLost"},
		{"lost-part-taken-as-refused", "crossing/wire.go", "	if refused {\n", "	if refused || reply == nil {\n", "TestNothingIsExceededOrLeftAfar"},
		{"part-not-given-back-afar", "crossing/crossing.go", "		c.send(i, across.GiveBack)\n", "		(*Crossing)(c).tell(told{i, across.GiveBack, failed(engine.ErrClosed, -1)})\n", "./TestSeveralNodesAreLost"},
		{"part-not-held-afar", "crossing/wire.go", "	a := p.carriesOut(p.call)\n", "	p.named([]byte{byte(len(b))})\n	a := p.carriesOut(p.call)\n", "TestNothingIsExceededOrLeftAfar"},
		{"soft-limit-denies-afar", "crossing/wire.go", "flags&isSoft != 0, lease)", "false, lease)", "TestCallsAreRead"},
	})
}
