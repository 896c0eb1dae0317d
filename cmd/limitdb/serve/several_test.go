package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/groups"
	"limitdb/internal/clock"
	"limitdb/replication"
	"limitdb/replication/peers"
	"limitdb/server"
)

// freeAddress returns an address on which nothing listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// beginSeveral begins a cluster of several groups, of one node. Its replicas are open, and lead, but nothing changes their places: that is for the test.
func beginSeveral(t *testing.T, count int, args ...string) *several {
	t.Helper()
	s, stop := beginSeveralIn(t, t.TempDir(), count, args...)
	t.Cleanup(stop)
	return s
}

// beginSeveralIn is beginSeveral in a directory, or another process there; stop stops the process.
func beginSeveralIn(t *testing.T, dir string, count int, args ...string) (s *several, stop func()) {
	t.Helper()
	s, stop = buildSeveral(t, dir, count, args...)
	if err := s.start(true, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for g := range s.replicas {
		until(t, fmt.Sprint("it leads group ", g), func() bool { return s.leadsHere(g) })
	}
	return s, stop
}

// buildSeveral makes the process of beginSeveralIn, whose replicas are not open yet.
func buildSeveral(t *testing.T, dir string, count int, args ...string) (s *several, stop func()) {
	t.Helper()
	registry, set := config.New()
	err := registry.Load(config.Sources{Args: append([]string{
		"--port", "0", "--http-port", "0", "--dir", dir, "--logfile", dir + "/server.out", "--raft-addr", freeAddress(t), "--raft-id", "a", "--raft-bootstrap", "yes",
	}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{registry: registry, set: set, clock: clock.NewReal(), boot: clock.SystemBoot(), stop: make(chan bool, 2), learned: count}
	var undo cleanups
	stop = func() {
		if err := undo.run(); err != nil {
			t.Error(err)
		}
	}
	if err := p.build(&undo); err != nil {
		t.Fatal(err)
	}
	undo.add(p.keepState)
	for _, g := range p.server.Groups() {
		g.Follow()
	}
	return p.member.several, stop
}

// A cluster of several groups begins in a directory that is not there yet, as one of one group does.
func TestBeginSeveralWithoutADirectory(t *testing.T) {
	t.Parallel()
	_, stop := beginSeveralIn(t, filepath.Join(t.TempDir(), "new", "n1"), 2, "--logfile", filepath.Join(t.TempDir(), "log"))
	stop()
}

// A line of RAFT PLAN names a leader only if one is chosen.
func TestLineOfAPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step groups.SetPlace
		want string
	}{
		{groups.SetPlace{Group: 0, Nodes: []string{"a", "b"}}, "group 0: on [a b]"},
		{groups.SetPlace{Group: 3, Nodes: []string{"a", "b"}, Leader: "b"}, "group 3: on [a b], led by b"},
	} {
		if got := planned(c.step); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// until waits for what takes milliseconds.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}

// Until the directory has begun, a node that joins is told to ask again, and the first one is not ready.
func TestJoinBeforeTheDirectoryBegins(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 4)
	b := groups.Node{ID: "b", Client: "127.0.0.1:2", Raft: freeAddress(t), Weight: 1}
	for what, err := range map[string]error{
		"add": s.dir.add(b.ID, b.Raft), "change": s.dir.change(groups.SetNode{Node: b}), "drain": s.dir.drain("b", true), "remove": s.dir.remove("b"),
	} {
		if err = raftError(err); !errors.Is(err, server.ErrNotYet) || !errors.Is(err, errNotBegun) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.p.server.Ready(); err == nil {
		t.Error("the node is ready, and its groups have no places")
	}
	s.placing.beginDirectory()
	s.acceptSecret()
	if err := s.dir.change(groups.SetNode{Node: b}); err != nil {
		t.Error(err)
	}
	if err := s.p.server.Ready(); err != nil {
		t.Error(err)
	}
}

// The settings of a node come to the directory. A node gets no replicas before the directory knows where it is and how much it takes.
func TestPlacementFollowsTheSettings(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 4, "--raft-replicas", "5", "--raft-zone", "east", "--raft-weight", "300", "--raft-moves", "7")
	s.placing.beginDirectory()
	a, _ := s.dir.current().Node("a")
	if d := s.dir.current(); d.Replicas != 5 || a.Zone != "east" || a.Weight != 300 || d.Groups() != 4 {
		t.Errorf("%+v", d)
	}
	b := groups.Node{ID: "b", Client: "127.0.0.1:2", Raft: freeAddress(t), Weight: 1}
	s.near.mu.Lock()
	s.near.at["b"] = &neighbour{id: "b", address: b.Raft, there: true, heard: max(1, s.p.clock.Elapsed()), said: nodeState{Zone: "west", Weight: 50}}
	s.near.mu.Unlock()
	for _, known := range []bool{false, true} {
		if known {
			b.Zone, b.Weight = "west", 50
		}
		if err := s.dir.change(groups.SetNode{Node: b}); err != nil {
			t.Fatal(err)
		}
		if f := s.placing.facts(); f.Silent["b"] == known || f.Silent["a"] || f.Moves != 7 {
			t.Errorf("known %t: %+v", known, f)
		}
		if plan := s.dir.plan(); (len(plan) > 0) != known {
			t.Errorf("known %t: %q", known, plan)
		}
	}
}

// Nobody learns any more what became of a decision whose replica has gone: its reply must not be sent as if it counted, also when the replica is
// back and leads again.
func TestRepliesOfAReplicaThatHasGone(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 4)
	r := s.replicas[2]
	keeper := r.keeper()
	old := keeper.Turn()
	if err := r.shut(); err != nil {
		t.Fatal(err)
	}
	outcome := func(when string) {
		t.Helper()
		told := make(chan error, 1)
		if !keeper.Holds() || !keeper.Wait(old, func(err error) { told <- err }) {
			t.Errorf("%s: the reply does not wait", when)
			return
		}
		keeper.Kick()
		if err := <-told; !errors.Is(err, replication.ErrUnknown) {
			t.Errorf("%s: %v", when, err)
		}
	}
	if keeper.Turn() != 0 {
		t.Error("a group without a replica decides")
	}
	outcome("gone")
	r.states.Swap(r.newEngine()).Close()
	if err := s.openGroup(2, false, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	until(t, "it leads group 2 again", func() bool { return s.leadsHere(2) })
	if keeper.Turn() == old {
		t.Error("a turn came twice")
	}
	outcome("back")
}

// A node that stops opens no replica any more: nobody would close it.
func TestNoReplicaOfANodeThatStops(t *testing.T) {
	t.Parallel()
	s, stop := beginSeveralIn(t, t.TempDir(), 2)
	s.placing.beginDirectory()
	s.acceptSecret()
	stop()
	if _, err := s.tells.prepare(2); !errors.Is(err, errStopping) || s.replicas[2].node.Load() != nil {
		t.Error(err)
	}
	if _, err := s.dir.confirm(2); !errors.Is(err, server.ErrNotLeading) {
		t.Error(err)
	}
}

// neighbourThat adds another node, which leads group 2 and gives an answer to all that may take it a while.
func neighbourThat(t *testing.T, s *several, answers func() answer) *neighbour {
	n := &neighbour{id: "b", address: "127.0.0.1:1", there: true, said: nodeState{Groups: []groupState{{Group: 2, Leads: true}}}}
	n.work.dial = func() (net.Conn, error) {
		near, far := net.Pipe()
		go answerQuestions(far, "a", func(*question, string) (answer, error) { return answers(), nil })
		return near, nil
	}
	t.Cleanup(n.work.close)
	s.near.mu.Lock()
	n.heard = max(1, s.p.clock.Elapsed())
	s.near.at["b"] = n
	s.near.mu.Unlock()
	return n
}

// A group may come back to a node while that asks whether it may delete the replica that it had. What the replica acknowledges then must not be lost.
func TestReplicaThatComesBackIsKept(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	node := s.replicas[2].node.Load()
	neighbourThat(t, s, func() answer {
		if err := node.Confirm(); err != nil { // with an entry
			t.Error(err)
		}
		return answer{Member: &membership{Decides: true, Index: 1 << 40}}
	})
	if err := s.discardGroup(2, node); !errors.Is(err, errComesBack) || s.replicas[2].node.Load() != node {
		t.Errorf("%v", err)
	}
	if !replication.HasNode(s.p.durable.groupDir(2)) {
		t.Error("its directory is deleted")
	}
}

// A replica that has left its group hears nothing of the group's leader, and is deleted only later. Then the node knows the leader as one without a
// replica does. A replica that is to stay is not passed over: it will hear.
func TestLeaderOfAGroupThatHasMoved(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	until(t, "the directory begins", func() bool { s.placing.acceptSecret(); s.placing.beginDirectory(); return s.knows() })
	n := neighbourThat(t, s, func() answer { return answer{} })
	n.said.Hello.Client, n.said.Groups[0].Term = "b:1", 9
	if err := s.replicas[2].shut(); err != nil {
		t.Fatal(err)
	}
	if err := s.removeGroup(2); err != nil {
		t.Fatal(err)
	}
	if _, err := s.tells.prepare(2); err != nil { // of no members
		t.Fatal(err)
	}
	for i, step := range []struct {
		change groups.Record
		want   string
	}{
		{groups.SetNode{Node: groups.Node{ID: "b", Client: "b:1", Raft: n.address, Weight: 1}}, ""},
		{groups.SetPlace{Group: 2, Version: 2, Nodes: []string{"b"}, Leader: "b"}, "b"},
		{groups.SetPlace{Group: 2, Version: 3, Nodes: []string{"a", "b"}, Leader: "b"}, "b"},
		{groups.Complete{Group: 2, Version: 3}, ""},
	} {
		if err := s.dir.change(step.change); err != nil {
			t.Fatal(err)
		}
		s.near.mu.Lock()
		n.heard = max(1, s.p.clock.Elapsed())
		s.near.mu.Unlock()
		if id, client := s.near.leader(2); id != step.want || client != strings.TrimPrefix(step.want+":1", ":1") {
			t.Errorf("step %d: the leader is %q at %q, want %q", i, id, client, step.want)
		}
	}
}

// When a node has another address, the connections to the one before are closed.
func TestNeighbourThatMoves(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	n := neighbourThat(t, s, func() answer { return answer{} })
	var far [2]net.Conn
	n.look.conn, far[0] = net.Pipe()
	n.work.conn, far[1] = net.Pipe()
	for _, c := range far {
		if err := c.SetReadDeadline(time.Now().Add(deadline)); err != nil {
			t.Fatal(err)
		}
	}
	if s.near.neighbour("b", n.address) != n || s.near.neighbour("b", "127.0.0.1:2") == n {
		t.Error("the node is another one by another address only")
	}
	for _, c := range far {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
}

// A node that reports a change of itself while it is removed does not come back by that.
func TestNodeThatIsRemovedWhileItTells(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	until(t, "the directory begins", func() bool { s.placing.beginDirectory(); return s.dir.begun() })
	b := groups.Node{ID: "b", Client: "b:1", Raft: "b:2", Weight: 1}
	for range 20 {
		if err := s.dir.change(groups.SetNode{Node: b}); err != nil {
			t.Fatal(err)
		}
		told := make(chan error)
		s.dir.changes.Lock() // somebody else changes the directory
		go func() { told <- s.dir.changed("b", b) }()
		for range 1000 {
			runtime.Gosched()
		}
		err := s.dir.apply(groups.RemoveNode{ID: "b", Revision: s.dir.current().Revision})
		s.dir.changes.Unlock()
		if told := <-told; err != nil || !errors.Is(told, groups.ErrNode) {
			t.Fatal(err, told)
		}
		if _, is := s.dir.current().Node("b"); is {
			t.Fatal("the node is there again")
		}
	}
}

// While one node hangs, the others are asked as often as before: else they seemed silent, too.
func TestNeighbourThatHangs(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	until(t, "the directory begins", func() bool { s.placing.beginDirectory(); return s.dir.begun() })
	hang, answers, dials := make(chan struct{}), atomic.Int32{}, atomic.Int32{}
	for id, dial := range map[string]func() (net.Conn, error){
		"b": func() (net.Conn, error) {
			near, far := net.Pipe()
			go answerQuestions(far, "a", func(*question, string) (answer, error) {
				answers.Add(1)
				return answer{State: &nodeState{}}, nil
			})
			return near, nil
		},
		"c": func() (net.Conn, error) {
			dials.Add(1)
			<-hang
			return nil, errors.New("it hangs")
		},
	} {
		n := groups.Node{ID: id, Client: id + ":1", Raft: freeAddress(t), Weight: 1}
		if err := s.dir.change(groups.SetNode{Node: n}); err != nil {
			t.Fatal(err)
		}
		s.near.neighbour(id, n.Raft).look.dial = dial
	}
	t.Cleanup(s.near.at["b"].look.close)
	first, over := make(chan struct{}), make(chan struct{})
	go func() {
		s.near.survey(true)
		close(first)
	}()
	until(t, "the node that hangs is asked", func() bool { return dials.Load() == 1 })
	go func() {
		for answers.Load() < 3 {
			s.near.survey(true)
		}
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(deadline):
		t.Errorf("the node that answers was asked %d times", answers.Load())
	}
	s.near.mu.Lock()
	if n := s.near.at["c"].asked; n != 1 {
		t.Errorf("%d questions to the node that hangs", n)
	}
	s.near.mu.Unlock()
	close(hang)
	<-first
	<-over
	s.near.survey(false)
	if silent := s.near.silent(); silent["b"] || !silent["c"] {
		t.Errorf("silent: %v", silent)
	}
}

// The nodes of a cluster find the same group for a caller, also where files have the rules: they make no check before the secret is in group 0's log,
// and one that starts again has noted it.
func TestSecretOfSeveralGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	err := os.WriteFile(file, []byte("version: 1\nnamespaces:\n  shop:\n    - {name: each, key: [user], limit: gcra 10/h}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := beginSeveral(t, 4, "--rules-file", file)
	check := func() string {
		reply, _ := s.p.server.Do(t.Context(), []byte("RL.CHECK"), []byte("shop"), []byte("1"), []byte("user"), bytes.Repeat([]byte("u"), 300))
		return string(reply)
	}
	book := s.p.server.Rules()
	inForce := func() [16]byte {
		secret, _ := book.Secret()
		return secret
	}
	if got := check(); !strings.Contains(got, "CLUSTERDOWN") || s.hasSecret() {
		t.Errorf("before the secret is known: %q", got)
	}
	s.acceptSecret()
	secret, ok := s.p.kept.secret()
	if !ok || !s.hasSecret() || inForce() != secret {
		t.Errorf("in the log: %v; known: %v", ok, s.hasSecret())
	}
	if got := check(); strings.Contains(got, "CLUSTERDOWN") {
		t.Errorf("the secret is known: %q", got)
	}
	// Another process on the directory.
	book.SetSecret([16]byte{1})
	if err := s.readSecret(); err != nil || inForce() != secret {
		t.Errorf("the note says another secret: %v", err)
	}
	if err := os.WriteFile(s.secretPath(), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.readSecret(); err != nil || inForce() != secret {
		t.Errorf("a damaged note: %v", err)
	}
}

// A node that starts again has the rules and users that it has heard of before any node leads group 0, since it may lead other groups by then.
func TestRulesAndUsersBeforeGroup0IsLed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := beginSeveralIn(t, dir, 2)
	s.placing.beginDirectory()
	s.acceptSecret()
	s.noteKept()
	rules := []byte("version: 1\nnamespaces:\n  shop:\n    - {name: each, key: [user], limit: gcra 10/h}\n")
	if reply, err := s.p.server.Do(t.Context(), []byte("RL.RULES"), []byte("LOAD"), rules); err != nil || reply[0] == '-' {
		t.Fatalf("%q, %v", reply, err)
	}
	if err := s.p.kept.keepUsers([]byte("user default on nopass ~* &* +@all\nuser bob on nopass ~* &* +@all\n")); err != nil {
		t.Fatal(err)
	}
	s.noteKept()
	path := s.notePath()
	noted, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.noteKept() // nothing has changed
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the same is noted again: %v", err)
	}
	stop()
	s.noteKept() // of a node that has stopped
	again := func(what, note string, rules int, bob bool) {
		t.Helper()
		if err := os.WriteFile(path, []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		s, stop := buildSeveral(t, dir, 2)
		defer stop()
		if err := s.readKept(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if n, has := len(s.p.server.Rules().Set().Rules()), s.p.server.Users().Get("bob") != nil; n != rules || has != bob {
			t.Errorf("%s: %d rules, the user is there: %t", what, n, has)
		}
	}
	again("a note", string(noted), 1, true)
	again("a damaged note", string(noted[:len(noted)-1]), 0, false)
}

// Where nothing has rules yet, the secret is in group 0's log before the first of them: a later leader must not draw another.
func TestSecretWithoutFiles(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	s.acceptSecret()
	secret, ok := s.p.kept.secret()
	if inForce, known := s.p.server.Rules().Secret(); !ok || !known || inForce != secret {
		t.Errorf("in the log: %v; known: %v", ok, known)
	}
}

// RAFT REPLICAS changes on how many nodes each group is to be, and placement follows.
func TestReplicasChange(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 4, "--raft-replicas", "1")
	commands := s.dir.forServer()
	if err := commands.SetReplicas(3); !errors.Is(err, server.ErrNotYet) || commands.Replicas() != 0 {
		t.Errorf("before the directory has begun: %v, %d", err, commands.Replicas())
	}
	s.placing.beginDirectory()
	b := groups.Node{ID: "b", Client: "127.0.0.1:2", Raft: freeAddress(t), Weight: 1, Zone: "west"}
	s.near.mu.Lock()
	s.near.at["b"] = &neighbour{id: "b", address: b.Raft, there: true, heard: max(1, s.p.clock.Elapsed()), said: nodeState{Zone: b.Zone, Weight: b.Weight}}
	s.near.mu.Unlock()
	if err := s.dir.change(groups.SetNode{Node: b}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ replicas, moves int }{{0, 0}, {3, 4}, {5, 4}, {1, 0}} {
		if c.replicas > 0 {
			if err := commands.SetReplicas(c.replicas); err != nil || commands.Replicas() != c.replicas {
				t.Errorf("%v, %d replicas, want %d", err, commands.Replicas(), c.replicas)
			}
		}
		moves := 0
		plan := commands.Plan()
		for _, line := range plan {
			if !strings.HasPrefix(line, "group 0:") && strings.Contains(line, "on [a b]") {
				moves++
			}
		}
		if moves != c.moves {
			t.Errorf("%d replicas: %q", c.replicas, plan)
		}
	}
}

// An id that no node has, or may have, is answered with where to look, and the node that leads a group with the advice to name another.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	s.placing.beginDirectory()
	commands := s.dir.forServer()
	const no = "groups: there is no such node: RAFT NODES lists those that there are"
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"drain without an id":  {commands.Drain("", true), no},
		"drain of no node":     {commands.Drain("x", true), no},
		"remove without an id": {s.dir.remove(""), no},
		"remove of no node":    {s.dir.remove("x"), no},
		"transfer to itself":   {commands.Transfer(1, "a"), "replication: the node with this id leads already: name another one"},
		"the last to drain":    {commands.Drain("a", true), "groups: invalid: no node is left for what leaves node a"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%s: %v", what, c.err)
		}
	}
}

// RAFT TRANSFER with a group asks the node that leads it, which may be any.
func TestTransferOfAGroup(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	for _, c := range []struct {
		group int
		id    string
		want  error
	}{
		{1, "a", replication.ErrLeadsAlready}, {2, "b", replication.ErrNoMember},
	} {
		if err := s.dir.transfer(c.group, c.id); !errors.Is(err, c.want) {
			t.Errorf("group %d to %s: %v", c.group, c.id, err)
		}
	}
	if err := s.replicas[2].shut(); err != nil {
		t.Fatal(err)
	}
	if err := raftError(s.dir.transfer(2, "b")); !errors.Is(err, server.ErrNotYet) {
		t.Errorf("of a group that nobody leads: %v", err)
	}
	if err := s.tells.transfer(2, "b"); !errors.Is(err, replication.ErrNotLeader) {
		t.Errorf("asked of a node that does not lead: %v", err)
	}
}

// While another node leads a group, its table here is only in the hands of its replica. The server, which sweeps by the process's clock, has none.
func TestTablesOfGroupsAreLeftAlone(t *testing.T) {
	t.Parallel()
	registry, set := config.New()
	p := &process{registry: registry, set: set, clock: clock.NewReal(), log: slog.New(slog.DiscardHandler), engine: engine.New(engine.Options{Shards: 1})}
	s := newSeveral(&member{p: p}, 3)
	for i, o := range s.forServer() {
		if o.Engine == s.replicas[i].states.Load() {
			t.Errorf("group %d: the server begins with the replica's table", i)
		}
	}
}

// A node that answers, but does not say which groups it has, or that has just fallen silent, is not taken for one without replicas.
func TestRemovalOfANodeThatDoesNotSayWhatItHas(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	s.placing.beginDirectory()
	bare, err := peers.Listen(freeAddress(t), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l := bare.Layer(0)
	l.Self = func() peers.Hello {
		return peers.Hello{From: peers.ServerID("b", "1"), Cluster: s.home().node.Load().Says().Cluster, Client: "127.0.0.1:2", Reads: replication.Format, Writes: replication.Format}
	}
	l.Serve() // it says who it is, and no more
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for c, err := deaf.Accept(); err == nil; c, err = deaf.Accept() {
			_ = c.Close()
		}
	}()
	defer func() {
		if err := errors.Join(l.Close(), bare.Close(), deaf.Close()); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		what, address string
		placed        bool // group 1 is to have a replica there
		silent        bool // for long
		refused       bool
	}{
		{"one that says only who it is", bare.Address(), true, false, true},
		{"the same, of which no group is to have a replica", bare.Address(), false, false, false},
		{"one that does not answer", deaf.Addr().String(), true, false, true},
		{"the same, of which no group is to have a replica", deaf.Addr().String(), false, false, false},
		{"one that is silent", deaf.Addr().String(), true, true, false},
		{"one that has ended", freeAddress(t), true, false, false},
	} {
		s.near.mu.Lock()
		delete(s.near.at, "b")
		s.near.mu.Unlock()
		if err := s.dir.change(groups.SetNode{Node: groups.Node{ID: "b", Client: "127.0.0.1:2", Raft: c.address, Weight: 1}}); err != nil {
			t.Fatal(err)
		}
		place := func(ids ...string) {
			t.Helper()
			next := groups.SetPlace{Group: 1, Nodes: ids, Leader: "a", Version: s.dir.current().Places[1].Version + 1}
			if err := s.dir.change(next); err != nil {
				t.Fatal(err)
			}
		}
		if c.placed {
			place("a", "b")
		}
		n := s.near.neighbour("b", c.address)
		s.near.mu.Lock()
		if n.said = (nodeState{}); !c.silent {
			n.heard = max(1, s.p.clock.Elapsed())
		}
		s.near.mu.Unlock()
		err := raftError(s.dir.remove("b"))
		if _, is := s.dir.current().Node("b"); is != c.refused || errors.Is(err, server.ErrNotYet) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.refused && !strings.Contains(err.Error(), "drain it first with RAFT DRAIN b, or stop it") {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.refused {
			r, err := groups.Removable(s.dir.current(), groups.Facts{}, "b", s.dir.voters)
			if err := errors.Join(err, s.dir.change(r)); err != nil {
				t.Fatal(err)
			}
		}
		place("a")
		if err := s.dir.arrived(1, s.dir.current().Places[1].Version); err != nil { // the group has been there
			t.Fatal(err)
		}
	}
}
