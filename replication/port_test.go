package replication

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/replication/peers"
)

// Several groups of a node share its port. Each has members, a leader, a log and a directory of its own.
func TestGroupsShareAPort(t *testing.T) {
	t.Parallel()
	dir, names := t.TempDir(), []string{"a", "b", "c"}
	const groups = 2
	var addresses []string
	var ports []*peers.Port
	for range names {
		addresses = append(addresses, freeAddress(t))
		p, err := peers.Listen(addresses[len(addresses)-1], nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		ports = append(ports, p)
	}
	disk := func(name, group int) Disk {
		return Disk{Dir: filepath.Join(dir, names[name], fmt.Sprint(group)), Group: group, Port: ports[name], Bootstrap: name == group-1}
	}
	var nodes [groups + 1][3]*Node // by group and node
	var tables [groups + 1][3]*list
	open := func(group, i int) {
		tables[group][i] = &list{states: map[string]string{}}
		n, err := Open(realOptions(t, names[i], tables[group][i]), disk(i, group))
		if err != nil {
			t.Fatal(err)
		}
		nodes[group][i] = n
		t.Cleanup(func() { _ = n.Close() })
	}
	decide := func(group int, d string) {
		t.Helper()
		at := group - 1 // the node that began the group
		until(t, "the leader of the group", func() bool { return nodes[group][at].Turn() != 0 })
		if !tables[group][at].decide(d, "k") {
			t.Fatal("it does not decide")
		}
		done := make(chan error, 1)
		nodes[group][at].Wait(nodes[group][at].Turn(), func(err error) { done <- err })
		nodes[group][at].Kick()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for i := range names {
		open(2, i)
	}
	open(1, 0)
	until(t, "a leader", func() bool { return nodes[1][0].Turn() != 0 })
	open(1, 1)
	if err := nodes[1][0].Add("c", addresses[2]); err == nil || !strings.Contains(err.Error(), "this node has no replica of group 1") {
		t.Errorf("a node without the group: %v", err)
	}
	open(1, 2)
	for group := 1; group <= groups; group++ {
		decide(group, fmt.Sprint("before ", group))
		for i := range names {
			if i != group-1 {
				add(t, nodes[group][group-1], names[i], addresses[i])
			}
		}
		decide(group, fmt.Sprint("after ", group))
	}
	for group := 1; group <= groups; group++ {
		for i := range names {
			want := fmt.Sprintf(".before %d..after %d.", group, group)
			until(t, fmt.Sprintf("what group %d has decided, on %s", group, names[i]), func() bool { return tables[group][i].snapshot()["k"] == want })
		}
	}
	if one, two := nodes[1][0].parts.who, nodes[2][0].parts.who; one.Incarnation == two.Incarnation || one.Group != 1 || two.Group != 2 {
		t.Errorf("%+v, %+v", one.stored, two.stored)
	}
	// When a replica stops, the others of its node go on, at the same port.
	if err := nodes[1][1].Close(); err != nil {
		t.Error(err)
	}
	decide(2, "alone")
	if _, err := Open(realOptions(t, "b", &list{}), Disk{Dir: disk(1, 1).Dir, Group: 3, Port: ports[1]}); !errors.Is(err, ErrDirectory) {
		t.Errorf("another group's directory: %v", err)
	}
	open(1, 1)
	decide(1, "whole")
	until(t, "what was missed", func() bool { return strings.HasSuffix(tables[1][1].snapshot()["k"], ".whole.") })
}
