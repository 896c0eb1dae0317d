package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/internal/english"
)

func clusterDrainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "drain ID [--and-above] [--off] [--timeout TIME] [-a ADDRESS] [FILE] [--directive value …]",
		Short: "Move everything away from a node, so that it may be stopped and removed",
		Long: `Moves the replicas and the leaders of all groups away from the node with this raft-id, at last its vote in group 0, and
waits until they are gone. In a cluster of one group, it takes the lead and the vote from it. Decisions go on meanwhile. The node
may then be stopped, and removed with limitdb cluster remove. If the command is interrupted, the node goes on to be
drained; run it again to wait. --off undoes it.

--and-above is for clusters that become smaller: limitdb-3 --and-above drains limitdb-3, limitdb-4 and so on.

A node that is only started again need not be drained.`,
		Example: "  limitdb cluster drain n3 -a 10.0.0.7:6379",
	}
	asking(c, func(args []string) error {
		args, off := cli.CutFlag(args, "--off")
		l, err := parseLeavers(c, args)
		if err != nil {
			return err
		}
		return l.drain(off)
	})
	leaverFlags(c)
	c.Flags().Bool("off", false, "have the node get replicas, or its vote, again")
	return c
}

// drain has everything leave the nodes, or no longer, and waits until it has.
func (l *leavers) drain(off bool) error {
	var ids []string
	several := false
	warning := ""
	err := l.patiently(func(a *client) error {
		members, groups, err := a.members()
		if err != nil {
			return err
		}
		several = groups
		if ids, err = l.of(members); err != nil || !several {
			return err
		}
		replicas, err := a.ask("RAFT", "REPLICAS")
		warning = tooFew(members, ids, int(replicas.Int))
		return err
	})
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		fmt.Fprintf(l.out, "the cluster has no node %s or above: there is nothing to drain\n", l.id)
		return nil
	}
	words := func(id string) []string {
		switch {
		case !several:
			return []string{"RAFT", "SERVER", "PROMOTE", id}
		case off:
			return []string{"RAFT", "DRAIN", id, "OFF"}
		}
		return []string{"RAFT", "DRAIN", id}
	}
	for _, id := range ids { // all of them before any has been drained: what leaves one is not to come to another
		if !several && !off {
			break
		}
		if err := l.patiently(func(a *client) error { return a.askLeader(l.set, words(id)...) }); err != nil {
			return fmt.Errorf("node %s: %w", id, err)
		}
	}
	if off {
		fmt.Fprintf(l.out, "no longer drained: %s\n", strings.Join(ids, ", "))
		return nil
	}
	if warning != "" {
		fmt.Fprintln(l.out, warning)
	}
	for _, id := range ids {
		if several {
			err = l.drainer(id).wait()
		} else {
			err = l.retire(id, ids)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tooFew returns a warning if fewer nodes stay than each group is to be on. A node that drains already does not stay.
func tooFew(nodes []row, leave []string, replicas int) string {
	stay := 0
	for _, n := range nodes {
		if n.value("draining").Int != 1 && !slices.Contains(leave, n.text("id")) {
			stay++
		}
	}
	if stay == 0 || stay >= replicas {
		return ""
	}
	return fmt.Sprintf("warning: %s, so each group will be on %d instead of %d until there are more, and survive the loss of %d", map[bool]string{true: "1 node stays", false: fmt.Sprint(stay, " nodes stay")}[stay == 1], stay, replicas, (stay-1)/2)
}

// retire takes the lead and the vote from a node of a cluster of one group. Nodes that leave as well are not made to lead.
func (l *leavers) retire(id string, leave []string) error {
	for ; ; l.pause() {
		vote := true
		err := l.patiently(func(a *client) error {
			members, _, err := a.members()
			if err != nil {
				return err
			}
			m, ok := rowOf(members, id)
			if !ok {
				return noNode(id, members)
			}
			if vote = m.text("vote") == "voter"; !vote {
				return nil
			}
			if m.text("role") == "leader" {
				next := slices.IndexFunc(members, func(r row) bool {
					return r.text("vote") == "voter" && r.text("state") == "online" && !slices.Contains(leave, r.text("id"))
				})
				if next < 0 {
					return errors.New("no node that stays answers and has a vote")
				}
				return a.askLeader(l.set, "RAFT", "TRANSFER", members[next].text("id"))
			}
			return a.askLeader(l.set, "RAFT", "SERVER", "DEMOTE", id)
		})
		switch {
		case err != nil:
			return fmt.Errorf("node %s still has its vote: %w", id, err)
		case !vote:
			sayDrained(l.out, id)
			return nil
		case l.late():
			return fmt.Errorf("node %s still has its vote", id)
		}
	}
}

func sayDrained(out io.Writer, id string) {
	fmt.Fprintf(out, "node %s is drained: stop it, then remove it with limitdb cluster remove %s\n", id, id)
}

// drainView is what a node says while another one is drained: the replies of RAFT NODES, RAFT GROUPS and RAFT SERVER LIST.
type drainView struct{ nodes, groups, voters []row }

// lookAtDrain asks for a drainView.
func (c *client) lookAtDrain() (v drainView, err error) {
	for words, to := range map[string]*[]row{"RAFT NODES": &v.nodes, "RAFT GROUPS": &v.groups, "RAFT SERVER LIST": &v.voters} {
		reply, err := c.ask(strings.Fields(words)...)
		if err != nil {
			return v, err
		}
		*to = rowsOf(reply)
	}
	return v, nil
}

// drainer waits until everything has left a node.
type drainer struct {
	id   string
	out  io.Writer
	end  time.Time // when to give up, zero for never
	look func() (drainView, error)
	rest func() // between two looks
}

func (l *leavers) drainer(id string) *drainer {
	look := func() (v drainView, err error) {
		err = l.patiently(func(a *client) error {
			v, err = a.lookAtDrain()
			return err
		})
		return v, err
	}
	return &drainer{id: id, out: l.out, end: l.end, look: look, rest: l.pause}
}

// wait returns when everything has left, and says meanwhile what has not.
func (d *drainer) wait() error {
	for said := ""; ; d.rest() {
		v, err := d.look()
		if err != nil {
			return fmt.Errorf("node %s is being drained, and the node that was asked says no more: %w", d.id, err)
		}
		left, err := v.left(d.id)
		switch {
		case err != nil:
			return err
		case left == "":
			sayDrained(d.out, d.id)
			return nil
		case left != said:
			fmt.Fprintf(d.out, "node %s has %s\n", d.id, left)
			said = left
		}
		if !d.end.IsZero() && !time.Now().Before(d.end) {
			return fmt.Errorf("node %s still has %s: it goes on to be drained", d.id, left)
		}
	}
}

// left says what a node still has, "" if nothing. It returns an error for a node that is not drained any more.
func (v drainView) left(id string) (string, error) {
	is := func(r row) bool { return r.text("id") == id }
	at := slices.IndexFunc(v.nodes, is)
	if at < 0 {
		return "", fmt.Errorf("node %s is no node of the cluster any more", id)
	}
	n := v.nodes[at]
	if n.value("draining").Int != 1 {
		return "everything, as far as the node that was asked knows", nil
	}
	placed, moving := 0, 0
	for _, g := range v.groups {
		if slices.Contains(g.list("nodes"), id) {
			placed++
		}
		if g.value("settled").Int != 1 {
			moving++
		}
	}
	var left []string
	replicas := max(placed, int(n.value("replicas").Int))
	if n.text("state") != "online" { // it does not say what it has
		replicas = max(replicas, moving)
	}
	if replicas > 0 {
		left = append(left, english.Count(replicas, "replica"))
	}
	if leads := int(n.value("leads").Int); leads > 0 {
		left = append(left, "the lead of "+english.Count(leads, "group"))
	}
	if slices.ContainsFunc(v.voters, func(r row) bool { return is(r) && r.text("vote") == "voter" }) {
		left = append(left, "a vote in group 0")
	}
	return strings.Join(left, ", "), nil
}
