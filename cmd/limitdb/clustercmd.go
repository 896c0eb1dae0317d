package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
	"limitdb/internal/english"
	"limitdb/resp"
)

func clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes and groups of a running cluster, and drain a node",
		Long: `Asks any node of a cluster. -a names its address, host:port or the path of a unix socket; without it, the
configuration does, as for limitdb ping. LIMITDB_REQUIREPASS has the password.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return cli.UsageError(fmt.Errorf("unknown subcommand %q: the usage is limitdb cluster status|plan|drain", args[0]))
		},
	}
	c.AddCommand(clusterStatusCommand(), clusterPlanCommand(), clusterDrainCommand())
	return c
}

func clusterStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status [-a ADDRESS] [FILE] [--directive value …]",
		Short: "Show the nodes and the groups of a cluster",
		Long: `Shows what the node that is asked knows of all nodes and, if there are several groups of keys, of each
group: which slots it has, which node leads it, which nodes have a replica, and how many entries of the log the
last of them lacks. The exit status is 1 if a group has no leader.`,
		Example: "  limitdb cluster status -a 10.0.0.7:6379",
	}
	return asking(c, func(args []string) error {
		return withServer(args, func(a *client, _ *config.Settings) error { return showCluster(c.OutOrStdout(), a) })
	})
}

func clusterPlanCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "plan [-a ADDRESS] [FILE] [--directive value …]",
		Short:   "Show which replicas of groups are about to move, and which leaders",
		Example: "  limitdb cluster plan -a 10.0.0.7:6379",
	}
	return asking(c, func(args []string) error {
		return withServer(args, func(a *client, _ *config.Settings) error {
			plan, err := a.ask("RAFT", "PLAN")
			if err != nil {
				return err
			}
			for _, line := range plan.Elems {
				fmt.Fprintln(c.OutOrStdout(), line.Text)
			}
			if len(plan.Elems) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "nothing moves")
			}
			return nil
		})
	})
}

func clusterDrainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "drain ID [--off] [--timeout TIME] [-a ADDRESS] [FILE] [--directive value …]",
		Short: "Move everything away from a node, so that it may be stopped and removed",
		Long: `Has the replicas and the leaders of all groups leave the node with this raft-id, and its vote in group 0 at last, and
waits until they have. Decisions go on meanwhile. The node may then be stopped, and removed with RAFT SERVER REMOVE.
If it is interrupted, the node goes on to be drained; run it again to wait. --off has the node get replicas again.

A node that is only started again need not be drained.`,
		Example: "  limitdb cluster drain n3 -a 10.0.0.7:6379",
	}
	var out io.Writer
	asking(c, func(args []string) error {
		out = c.OutOrStdout()
		args, off := cli.CutFlag(args, "--off")
		most := time.Duration(0)
		if at := slices.Index(args, "--timeout"); at >= 0 {
			var err error
			if at+1 == len(args) {
				return cli.UsageError(errors.New("--timeout takes a time, as in 10m"))
			}
			if most, err = time.ParseDuration(args[at+1]); err != nil || most <= 0 {
				return cli.UsageError(fmt.Errorf("--timeout takes a time, as in 10m, not %s", args[at+1]))
			}
			args = slices.Delete(slices.Clone(args), at, at+2)
		}
		if len(args) == 0 || strings.HasPrefix(args[0], "-") {
			return cli.UsageError(fmt.Errorf("name the node: the usage is %s", c.UseLine()))
		}
		id := args[0]
		return withServer(args[1:], func(a *client, set *config.Settings) error {
			if off {
				return a.askLeader(set, "RAFT", "DRAIN", id, "OFF")
			}
			if err := a.askLeader(set, "RAFT", "DRAIN", id); err != nil {
				return err
			}
			d := drainer{id: id, out: out, look: func() (drainView, error) { return a.lookAtDrain() }, rest: func() { time.Sleep(drainEvery) }}
			if most > 0 {
				d.end = time.Now().Add(most)
			}
			return d.wait()
		})
	})
	c.Flags().Bool("off", false, "have the node get replicas again")
	c.Flags().Duration("timeout", 0, "wait no longer than this `TIME`, as in 10m; without it, until all is done")
	return c
}

// withServer connects to the server that arguments name.
func withServer(args []string, run func(*client, *config.Settings) error) error {
	set, err := settingsOf(args)
	if err != nil {
		return err
	}
	a, err := connect(set)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	defer func() { _ = a.Close() }()
	return run(a, set)
}

// leaderHops is how often a command follows a node's answer that another one leads.
const leaderHops = 3

// askLeader sends a command to the node that leads group 0, or the only group: this one, or the one that it names.
func (c *client) askLeader(set *config.Settings, words ...string) error {
	_, err := c.ask(words...)
	for range leaderHops {
		var leader string
		if err == nil {
			return nil
		}
		if _, no := fmt.Sscanf(err.Error(), "MOVED 0 %s", &leader); no != nil {
			return err
		}
		if err = at(leader, set, func(other *client) error {
			_, err := other.ask(words...)
			return err
		}); err == nil {
			return nil
		}
	}
	return err
}

// at runs something with a connection to another server.
func at(address string, set *config.Settings, run func(*client) error) error {
	other, err := connectTo(address, set)
	if err != nil {
		return fmt.Errorf("no answer of the node that leads: %w", err)
	}
	defer func() { _ = other.Close() }()
	return run(other)
}

// row is a reply that is a list of names and values.
type row struct{ v resp.Value }

// rowsOf returns the rows of a reply that has several.
func rowsOf(v resp.Value) (all []row) {
	for _, e := range v.Elems {
		all = append(all, row{e})
	}
	return all
}

func (r row) value(name string) resp.Value {
	for i := 0; i+1 < len(r.v.Elems); i += 2 {
		if r.v.Elems[i].Text == name {
			return r.v.Elems[i+1]
		}
	}
	return resp.Value{}
}

// text returns a value as people read it.
func (r row) text(name string) string {
	v := r.value(name)
	if v.Kind == ':' {
		return strconv.FormatInt(v.Int, 10)
	}
	return v.Text
}

func (r row) list(name string) (all []string) {
	for _, e := range r.value(name).Elems {
		all = append(all, e.Text)
	}
	return all
}

// showCluster prints the nodes and the groups that a node knows.
func showCluster(out io.Writer, c *client) error {
	info, err := c.ask("RAFT", "INFO")
	if err != nil {
		return err
	}
	several := row{info}.value("groups").Int > 1
	list := []string{"RAFT", "SERVER", "LIST"}
	if several {
		list = []string{"RAFT", "NODES"}
	}
	nodes, err := c.ask(list...)
	if err != nil {
		return err
	}
	var groups resp.Value
	if several {
		if groups, err = c.ask("RAFT", "GROUPS"); err != nil {
			return err
		}
	}
	return printCluster(out, row{info}, rowsOf(nodes), rowsOf(groups))
}

// printCluster prints the replies of RAFT INFO, NODES and GROUPS. In a cluster of one group there are no groups, and the nodes are those of RAFT SERVER LIST.
func printCluster(out io.Writer, info row, nodes, groups []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	table := func(columns ...string) { fmt.Fprintln(w, strings.Join(columns, "\t")) }
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	if len(groups) == 0 {
		table("NODE", "CLIENTS", "STATE", "VOTE", "ROLE")
		for _, n := range nodes {
			table(n.text("id"), dash(n.text("client")), n.text("state"), n.text("vote"), n.text("role"))
		}
		if info.text("leader") == "" {
			return errors.Join(w.Flush(), errors.New("no node leads"))
		}
		return w.Flush()
	}
	table("NODE", "CLIENTS", "ZONE", "WEIGHT", "STATE", "REPLICAS", "LEADS")
	for _, n := range nodes {
		state := n.text("state")
		if n.value("draining").Int == 1 {
			state += ", draining"
		}
		table(n.text("id"), n.text("client"), dash(n.text("zone")), n.text("weight"), state, n.text("replicas"), n.text("leads"))
	}
	table()
	table("GROUP", "SLOTS", "LEADER", "REPLICAS", "KEYS", "LAG", "STATE")
	var dead []string
	for _, g := range groups {
		state := "moves to " + strings.Join(g.list("nodes"), " ")
		if g.value("settled").Int == 1 {
			state = "at rest"
		}
		leader := g.text("leader")
		switch wanted := g.text("wanted-leader"); {
		case leader == "":
			dead = append(dead, g.text("group"))
			state = "no leader"
		case leader != wanted && state == "at rest":
			state = "to be led by " + wanted
		}
		table(g.text("group"), g.text("first-slot")+"-"+g.text("last-slot"), dash(leader), strings.Join(g.list("replicas"), " "), g.text("keys"), g.text("lag"), state)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(dead) > 0 {
		return fmt.Errorf("no node leads %s: %s", map[bool]string{true: "group", false: "groups"}[len(dead) == 1], strings.Join(dead, " "))
	}
	return nil
}

// drainEvery is the time between two looks at a node that is drained.
const drainEvery = time.Second

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
			fmt.Fprintf(d.out, "node %s is drained: stop it, then remove it with RAFT SERVER REMOVE %s\n", d.id, d.id)
			return nil
		case left != said:
			fmt.Fprintf(d.out, "node %s has %s\n", d.id, left)
			said = left
		}
		if !d.end.IsZero() && time.Now().After(d.end) {
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
