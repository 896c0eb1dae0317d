package serve

import (
	"errors"
	"testing"

	"limitdb/internal/journal"
	"limitdb/server"
)

// recordsIn parses records that stand behind one another.
func recordsIn(t *testing.T, b []byte) (all []journal.Record) {
	t.Helper()
	for len(b) > 0 {
		var r journal.Record
		var err error
		if r, b, err = journal.Parse(b); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// hand applies what give writes to another node, and checks that the node keeps the text and the secret.
func hand(t *testing.T, how, text string, secret [16]byte, give func(*journal.Buffer)) {
	t.Helper()
	var buf journal.Buffer
	give(&buf)
	buf.Set(1, 1, []byte("key"), make([]byte, 8)) // a state of the engine
	var to keptRules
	if others := to.apply(recordsIn(t, buf.Bytes)); len(others) != 1 || others[0].Kind != 1 {
		t.Errorf("%s: %v is not for the rules", how, others)
	}
	if got, ok := to.secret(); !ok || got != secret || string(to.text()) != text || string(to.counters()) != "counted" {
		t.Errorf("%s: the other node keeps %q, %v (%v)", how, to.text(), got, ok)
	}
	if to.dirty() {
		t.Errorf("%s: what was applied is to be cut again", how)
	}
}

// TestKeptRulesReachOtherNodes hands rules to other nodes by the log and by a snapshot.
func TestKeptRulesReachOtherNodes(t *testing.T) {
	var k keptRules
	dirtied := 0
	k.resume(0, func() { dirtied++ })
	secret := [16]byte{1, 15: 16}
	for _, text := range []string{"one", "two"} {
		if err := k.keep([]byte(text), secret); err != nil {
			t.Fatal(err)
		}
		secret[15]++ // the first one stays
	}
	secret[15] = 16
	dirtied = 0
	for range 2 {
		k.keepCounters([]byte("counted"))
	}
	if dirtied != 1 {
		t.Errorf("counters that have not changed ask for a cut: %d", dirtied)
	}
	if dirtied == 0 || !k.dirty() {
		t.Fatal("the change does not ask for a cut")
	}
	k.cutOff()
	hand(t, "log", "two", secret, func(b *journal.Buffer) {
		if k.drain(b, 1) || k.dirty() {
			t.Error("there is more to drain")
		}
	})
	hand(t, "snapshot", "two", secret, k.copyTo)
	k.clear()
	if _, ok := k.secret(); ok || k.text() != nil || k.dirty() {
		t.Error("something is left")
	}
}

// TestKeptRulesOfAFollower checks that a node changes its rules only while it leads, and is asked for no records of
// what it applies.
func TestKeptRulesOfAFollower(t *testing.T) {
	var k keptRules
	k.follow()
	if err := k.keep([]byte("late"), [16]byte{1}); !errors.Is(err, server.ErrNotLeading) || k.text() != nil || k.dirty() {
		t.Errorf("a node that does not lead keeps %q: %v", k.text(), err)
	}
	if k.keepCounters([]byte("late")); k.counters() != nil || k.dirty() {
		t.Errorf("a node that does not lead keeps counters: %q", k.counters())
	}
	var buf journal.Buffer
	buf.Set(1, rulesKind, []byte(rulesText), []byte("the leader's"))
	k.apply(recordsIn(t, buf.Bytes))
	k.resume(0, func() {})
	if string(k.text()) != "the leader's" || k.dirty() {
		t.Errorf("the next leader has %q", k.text())
	}
	if err := k.keep([]byte("next"), [16]byte{1}); err != nil || !k.dirty() {
		t.Errorf("the next leader does not keep rules: %v", err)
	}
}
