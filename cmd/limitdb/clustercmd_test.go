package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"limitdb/resp"
)

// fieldsOf makes a row of names and values: texts, ints, and lists of texts.
func fieldsOf(all ...any) row {
	v := resp.Value{Kind: '*'}
	for _, f := range all {
		switch f := f.(type) {
		case int:
			v.Elems = append(v.Elems, number(int64(f)))
		case string:
			v.Elems = append(v.Elems, word(f))
		case []string:
			l := list()
			for _, s := range f {
				l.Elems = append(l.Elems, word(s))
			}
			v.Elems = append(v.Elems, l)
		}
	}
	return row{v}
}

func nodeRow(id, state string, draining, replicas, leads int) row {
	return fieldsOf("id", id, "client", "10.0.0.1:6379", "zone", "", "weight", 100, "state", state, "draining", draining, "replicas", replicas, "leads", leads)
}

func groupRow(number int, leader, wanted string, settled int, nodes ...string) row {
	return fieldsOf("group", number, "first-slot", 0, "last-slot", 8191, "leader", leader, "wanted-leader", wanted, "nodes", nodes, "replicas", nodes, "settled", settled, "lag", 3, "keys", 12, "decisions-per-second", 340)
}

func TestClusterStatus(t *testing.T) {
	var out strings.Builder
	nodes := []row{nodeRow("n1", "online", 0, 2, 1), nodeRow("n2", "unreachable", 1, 0, 0)}
	groups := []row{
		groupRow(1, "n1", "n1", 1, "n1", "n2"), groupRow(2, "n1", "n2", 1, "n1", "n2"), groupRow(3, "n1", "n1", 0, "n1"), groupRow(4, "", "n1", 1, "n1", "n2"),
	}
	err := printCluster(&out, fieldsOf("groups", 4), nodes, groups)
	if err == nil || err.Error() != "no node leads group: 4" {
		t.Error(err)
	}
	want := `NODE  CLIENTS        ZONE  WEIGHT  STATE                  REPLICAS  LEADS
n1    10.0.0.1:6379  -     100     online                 2         1
n2    10.0.0.1:6379  -     100     unreachable, draining  0         0

GROUP  SLOTS   LEADER  REPLICAS  KEYS  DECISIONS/S  LAG  STATE
1      0-8191  n1      n1 n2     12    340          3    at rest
2      0-8191  n1      n1 n2     12    340          3    to be led by n2
3      0-8191  n1      n1        12    340          3    moves to n1
4      0-8191  -       n1 n2     12    340          3    no leader; its place is n1 n2
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}

	out.Reset()
	one := fieldsOf("id", "n1", "client", "", "vote", "voter", "role", "leader", "state", "online")
	if err := printCluster(&out, fieldsOf("leader", "10.0.0.1:6379"), []row{one}, nil); err != nil {
		t.Error(err)
	}
	if got, want := out.String(), "NODE  CLIENTS  STATE   VOTE   ROLE\nn1    -        online  voter  leader\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if err := printCluster(&out, fieldsOf("leader", ""), []row{one}, nil); err == nil {
		t.Error("nothing is wrong without a leader")
	}
}

// A node is drained when no group is to be there, it has told that it has none, and it has no vote. One that does not answer counts as having what
// has not come to its place.
func TestDrainWaits(t *testing.T) {
	vote := []row{fieldsOf("id", "n1", "vote", "voter"), fieldsOf("id", "n2", "vote", "voter")}
	none := []row{fieldsOf("id", "n1", "vote", "voter"), fieldsOf("id", "n2", "vote", "nonvoter")}
	at := func(node row, voters []row, groups ...row) drainView {
		return drainView{[]row{nodeRow("n1", "online", 0, 1, 1), node}, groups, voters}
	}
	looks := []struct {
		view drainView
		says string
	}{
		{at(nodeRow("n2", "online", 0, 2, 1), vote), "node n2 has everything, as far as the node that was asked knows\n"},
		{at(nodeRow("n2", "online", 1, 2, 1), vote, groupRow(1, "n2", "n2", 1, "n1", "n2")), "node n2 has 2 replicas, the lead of 1 group, a vote in group 0\n"},
		{at(nodeRow("n2", "online", 1, 2, 1), vote, groupRow(1, "n2", "n2", 1, "n1", "n2")), ""},
		{at(nodeRow("n2", "online", 1, 0, 0), vote, groupRow(1, "n1", "n1", 1, "n1", "n2")), "node n2 has 1 replica, a vote in group 0\n"},
		{at(nodeRow("n2", "unreachable", 1, 0, 0), none, groupRow(1, "n1", "n1", 0, "n1"), groupRow(2, "n1", "n1", 0, "n1")), "node n2 has 2 replicas\n"},
		{at(nodeRow("n2", "online", 1, 0, 0), none, groupRow(1, "n1", "n1", 0, "n1")), "node n2 is drained: stop it, then remove it with limitdb cluster remove n2\n"},
	}
	var out strings.Builder
	looked := 0
	d := drainer{id: "n2", out: &out, look: func() (drainView, error) { looked++; return looks[looked-1].view, nil }}
	said := 0
	d.rest = func() {
		if got := out.String()[said:]; got != looks[looked-1].says {
			t.Errorf("look %d: %q, want %q", looked, got, looks[looked-1].says)
		}
		said = out.Len()
	}
	if err := d.wait(); err != nil || looked != len(looks) {
		t.Errorf("%d looks, %v", looked, err)
	}
	d.rest()

	d = drainer{id: "n2", out: &out, end: time.Now(), look: func() (drainView, error) { return looks[1].view, nil }}
	if err := d.wait(); err == nil || !strings.Contains(err.Error(), "still has 2 replicas") {
		t.Error(err)
	}
	d.look = func() (drainView, error) { return drainView{nodes: []row{nodeRow("n1", "online", 0, 1, 1)}}, nil }
	if err := d.wait(); err == nil || !strings.Contains(err.Error(), "no node of the cluster any more") {
		t.Error(err)
	}
	d.look = func() (drainView, error) { return drainView{}, errors.New("it is down") }
	if err := d.wait(); err == nil || !strings.Contains(err.Error(), "it is down") {
		t.Error(err)
	}
}

// The nodes that are to leave are the one that is named, or all from there on, the highest number first.
func TestLeavers(t *testing.T) {
	var members []row
	for _, id := range []string{"n1", "db-2", "db-10", "db-9", "db-3", "db-03", "other-9", "db-", "9"} {
		members = append(members, nodeRow(id, "online", 0, 0, 0))
	}
	for id, want := range map[string]string{"db-3": "db-10 db-9 db-3", "db-10": "db-10", "db-11": "", "n0": "n1", "0": "9"} {
		l := leavers{id: id, above: true}
		if got, err := l.of(members); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s and above: %v, %v", id, got, err)
		}
	}
	if got, err := (&leavers{id: "db-3"}).of(members); err != nil || len(got) != 1 || got[0] != "db-3" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := (&leavers{id: "n7"}).of(members[:2]); err == nil || err.Error() != "the cluster has no node n7: its nodes are n1, db-2" {
		t.Error(err)
	}
}

// A drain that leaves fewer nodes than a group has replicas says what that means.
func TestDrainLeavesFewNodes(t *testing.T) {
	nodes := []row{nodeRow("n1", "online", 0, 1, 1), nodeRow("n2", "online", 0, 1, 1), nodeRow("n3", "online", 0, 1, 1), nodeRow("n4", "online", 1, 0, 0)}
	for _, v := range []struct {
		leave    []string
		replicas int
		want     string
	}{
		{[]string{"n4"}, 3, ""},
		{[]string{"n3"}, 1, ""},
		{[]string{"n3"}, 3, "warning: 2 nodes stay, so each group will be on 2 instead of 3 until there are more, and survive the loss of 0"},
		{[]string{"n3", "n2", "n4"}, 3, "warning: 1 node stays, so each group will be on 1 instead of 3 until there are more, and survive the loss of 0"},
		{[]string{"n4"}, 5, "warning: 3 nodes stay, so each group will be on 3 instead of 5 until there are more, and survive the loss of 1"},
		{[]string{"n1", "n2", "n3"}, 3, ""}, // the server refuses the last
	} {
		if got := tooFew(nodes, v.leave, v.replicas); got != v.want {
			t.Errorf("%v leave, %d replicas: %q", v.leave, v.replicas, got)
		}
	}
}

// Without a time-out, a server that does not answer is an error at once. With one, or when a node has answered before, it is asked again for a while;
// what a node refuses is not.
func TestLeaversWait(t *testing.T) {
	tried, waited := 0, 0
	asks := func(l leavers, err error) int {
		tried, waited = 0, 0
		l.set, l.pause = nil, func() { waited++ }
		l.dial = func() (*client, error) { tried++; return nil, err }
		if got := l.patiently(func(*client) error { return nil }); !errors.Is(got, err) || waited != tried-1 {
			t.Errorf("%v after %d of %d", got, waited, tried)
		}
		return tried
	}
	for _, v := range []struct {
		l    leavers
		err  error
		want int
	}{
		{leavers{}, errors.New("refused"), 1},
		{leavers{begun: true}, errors.New("refused"), tries},
		{leavers{end: time.Now().Add(time.Hour)}, errors.New("refused"), tries},
		{leavers{end: time.Now()}, errors.New("refused"), 1},
		{leavers{begun: true}, replied{errors.New("ERR no such thing")}, 1},
		{leavers{begun: true}, replied{errors.New("CLUSTERDOWN no leader")}, tries},
	} {
		if got := asks(v.l, v.err); got != v.want {
			t.Errorf("%v: %d attempts, want %d", v.err, got, v.want)
		}
	}
}

func TestClusterUsage(t *testing.T) {
	for _, v := range os.Environ() { // of the tests, which are no directives
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "LIMITDB_") {
			t.Setenv(name, value) // puts it back
			_ = os.Unsetenv(name)
		}
	}
	for line, want := range map[string]string{
		"cluster stats":                      "limitdb cluster status|plan|drain|remove",
		"cluster remove":                     "name the node: the usage is limitdb cluster remove ID",
		"cluster remove --and-above":         "name the node",
		"cluster drain node --and-above":     "a number at its end, as in limitdb-3, not node",
		"cluster remove n-01 --and-above":    "not n-01",
		"cluster drain":                      "name the node",
		"cluster drain --off":                "name the node",
		"cluster drain n1 --timeout":         "--timeout takes a time",
		"cluster drain n1 --timeout soon":    "not soon",
		"cluster drain n1 --timeout -1s":     "not -1s",
		"cluster drain n1 n2":                "one ID is taken; what follows it is a configuration file",
		"cluster status --raft-groups seven": "raft-groups",
	} {
		if err := run(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
