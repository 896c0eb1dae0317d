package replication

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// A new member that does not get the log has no vote, so the others continue without
// it.
func TestNoVoteBeforeTheLog(t *testing.T) {
	t.Parallel()
	table := &list{states: map[string]string{}}
	a, err := Open(realOptions(t, "a", table), Disk{Dir: filepath.Join(t.TempDir(), "a"), Address: freeAddress(t), Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a leader", func() bool { return a.Turn() != 0 })
	deaf := newPeer(t, "b", nil) // it says who it is, and reads nothing that Raft sends
	deaf.hello.Cluster = a.parts.who.cluster()
	added := make(chan error, 1)
	go func() {
		err := a.Add("b", deaf.address)
		for errors.Is(err, ErrUnreachable) { // the process was held up
			err = a.Add("b", deaf.address)
		}
		added <- err
	}()
	until(t, "a member", func() bool {
		all, err := a.Members()
		if err != nil || len(all) < 2 {
			return false
		}
		if all[1].ID != "b" || all[1].Voter {
			t.Fatalf("members: %+v", all)
		}
		return true
	})
	turn := a.Turn()
	if turn == 0 || !table.decide("1", "k") {
		t.Fatal("it does not decide")
	}
	done := make(chan error, 1)
	a.Wait(turn, func(err error) { done <- err })
	a.Kick()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := a.Promote("b"); err == nil {
		t.Error("it gets a vote without the log")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-added; err == nil {
		t.Error("it was added")
	}
}

// A node of the cluster that is no member is refused while the leader is heard.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	a, err := Open(realOptions(t, "a", &list{states: map[string]string{}}), Disk{Dir: filepath.Join(t.TempDir(), "a"), Address: address, Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	stranger := newPeer(t, "x", nil)
	stranger.hello.Cluster = a.parts.who.cluster()
	until(t, "a leader", func() bool { return a.Turn() != 0 })
	for _, c := range []call{callRaft, callClients} {
		if _, _, err := stranger.call(c, address, a.o.server, deadline); err == nil || !strings.Contains(err.Error(), "x is no member") && c == callRaft {
			t.Errorf("call %d: %v", c, err)
		}
	}
	if _, _, err := stranger.call(callAsk, address, "a", deadline); err != nil {
		t.Error(err)
	}
}
