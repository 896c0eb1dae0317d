package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
	"limitdb/resp"
)

func clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes and groups of a running cluster, drain nodes and remove them",
		Long: `Asks any node of a cluster. -a names its address, host:port or the path of a unix socket; without it, the
configuration does, as for limitdb ping. LIMITDB_REQUIREPASS has the password.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return cli.UsageError(fmt.Errorf("unknown subcommand %q: the usage is limitdb cluster status|plan|drain|remove", args[0]))
		},
	}
	c.AddCommand(clusterStatusCommand(), clusterPlanCommand(), clusterDrainCommand(), clusterRemoveCommand())
	return c
}

func clusterStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status [-a ADDRESS] [FILE] [--directive value …]",
		Short: "Show the nodes and the groups of a cluster",
		Long: `Shows what the node that is asked knows of all nodes and, if there are several groups of keys, of each
group: which slots it has, which node leads it, which nodes have a replica, and how many entries of the log are
missing on the slowest of them. The exit status is 1 if a group has no leader.`,
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

// withServer connects to the server that arguments name.
func withServer(args []string, run func(*client, *config.Settings) error) error {
	set, err := settingsOf(args)
	if err != nil {
		return err
	}
	a, err := connect(set)
	if err != nil {
		return unanswered(err)
	}
	defer func() { _ = a.Close() }()
	return run(a, set)
}

// unanswered is the error of a connection that failed, unless the server has said why: it knows another password.
func unanswered(err error) error {
	if _, reply := errors.AsType[replied](err); reply {
		return err
	}
	return fmt.Errorf("no answer: %w", err)
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
	nodes, several, err := c.members()
	if err != nil {
		return err
	}
	var groups resp.Value
	if several {
		if groups, err = c.ask("RAFT", "GROUPS"); err != nil {
			return err
		}
	}
	return printCluster(out, row{info}, nodes, rowsOf(groups))
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
	table("GROUP", "SLOTS", "LEADER", "REPLICAS", "KEYS", "DECISIONS/S", "LAG", "STATE")
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
			state = "no leader; its place is " + strings.Join(g.list("nodes"), " ")
		case leader != wanted && state == "at rest":
			state = "to be led by " + wanted
		}
		table(g.text("group"), g.text("first-slot")+"-"+g.text("last-slot"), dash(leader), strings.Join(g.list("replicas"), " "), g.text("keys"), g.text("decisions-per-second"), g.text("lag"), state)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(dead) > 0 {
		return fmt.Errorf("no node leads %s: %s", map[bool]string{true: "group", false: "groups"}[len(dead) == 1], strings.Join(dead, " "))
	}
	return nil
}
