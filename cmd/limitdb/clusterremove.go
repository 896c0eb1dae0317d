package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func clusterRemoveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove ID [--and-above] [--timeout TIME] [-a ADDRESS] [FILE] [--directive value …]",
		Short: "End the membership of a node that has been stopped",
		Long: `Waits until the node with this raft-id does not run any more, and removes it from the cluster. Drain a node before you
stop it. One that is lost need not be drained: it is removed unless a group would have no majority without it.

--and-above is for clusters that become smaller: limitdb-3 --and-above removes limitdb-3, limitdb-4 and so on.`,
		Example: "  limitdb cluster remove n3 -a 10.0.0.7:6379",
	}
	asking(c, func(args []string) error {
		l, err := parseLeavers(c, args)
		if err != nil {
			return err
		}
		return l.remove()
	})
	leaverFlags(c)
	return c
}

// remove ends the memberships of the nodes, when they do not run any more.
func (l *leavers) remove() error {
	var ids []string
	err := l.patiently(func(a *client) error {
		members, _, err := a.members()
		if err != nil {
			return err
		}
		ids, err = l.of(members)
		return err
	})
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		fmt.Fprintf(l.out, "the cluster has no node %s or above: there is nothing to remove\n", l.id)
		return nil
	}
	for _, id := range ids {
		if err := l.removeOne(id); err != nil {
			return fmt.Errorf("node %s: %w", id, err)
		}
		fmt.Fprintf(l.out, "node %s is removed\n", id)
	}
	return nil
}

// removeOne returns when the node that is asked lists the other one no more: it may hear of that a moment after the leader.
func (l *leavers) removeOne(id string) error {
	removed := false
	for said := false; ; l.pause() {
		there, runs, drained := false, false, true
		err := l.patiently(func(a *client) error {
			members, _, err := a.members()
			if err != nil {
				return err
			}
			var m row
			m, there = rowOf(members, id)
			if m.value("draining").Kind == ':' {
				drained = m.value("draining").Int == 1
			}
			if runs = m.text("state") == "online"; !there || removed || runs {
				return nil
			}
			err = a.askLeader(l.set, "RAFT", "SERVER", "REMOVE", id)
			removed = err == nil
			return err
		})
		switch {
		case err != nil || !there || removed && l.late():
			return err
		case removed:
		case l.late():
			return errors.New("it still runs")
		case !said:
			undrained := map[bool]string{false: ", and is not drained"}[drained]
			fmt.Fprintf(l.out, "node %s still runs%s: waiting until it is stopped\n", id, undrained)
			said = true
		}
	}
}
