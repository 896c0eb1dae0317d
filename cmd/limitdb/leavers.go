package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
)

// leavers are the nodes that are to leave a cluster, and how they are to.
type leavers struct {
	out   io.Writer
	id    string
	above bool // the nodes with higher numbers, too
	set   *config.Settings
	dial  func() (*client, error)
	end   time.Time // when to give up, zero for never
	begun bool      // a node has answered
	pause func()    // between two attempts
}

// andAbove is the flag of commands on leavers for all nodes from one on, as a StatefulSet numbers its pods.
const andAbove = "--and-above"

// leaverFlags declares the flags that parseLeavers cuts out.
func leaverFlags(c *cobra.Command) {
	c.Flags().Bool("and-above", false, "also each node whose ID differs only by a higher number at its end; it is no error if there is none")
	c.Flags().Duration("timeout", 0, "wait for at most this `TIME`, as in 10m, and of it at most 30 s until a node answers; without it, wait until all is done")
}

// parseLeavers parses the arguments of a command on leavers.
func parseLeavers(c *cobra.Command, args []string) (*leavers, error) {
	l := &leavers{out: c.OutOrStdout(), pause: func() { time.Sleep(time.Second) }}
	args, l.above = cli.CutFlag(args, andAbove)
	if at := slices.Index(args, "--timeout"); at >= 0 {
		if at+1 == len(args) {
			return nil, cli.UsageError(errors.New("--timeout takes a time, as in 10m"))
		}
		most, err := time.ParseDuration(args[at+1])
		if err != nil || most <= 0 {
			return nil, cli.UsageError(fmt.Errorf("--timeout takes a time, as in 10m, not %s", args[at+1]))
		}
		l.end = time.Now().Add(most)
		args = slices.Delete(slices.Clone(args), at, at+2)
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil, cli.UsageError(fmt.Errorf("name the node: the usage is %s", c.UseLine()))
	}
	if _, _, ok := numbered(args[0]); l.above && !ok {
		return nil, cli.UsageError(fmt.Errorf("%s takes an ID with a number at its end, as in limitdb-3, not %s", andAbove, args[0]))
	}
	l.id = args[0]
	set, err := settingsOf(args[1:])
	if err != nil && len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		err = fmt.Errorf("%w (one ID is taken; what follows it is a configuration file)", err)
	}
	l.set, l.dial = set, func() (*client, error) { return connect(set) }
	return l, err
}

// numbered splits an id into a name and the number at its end, which it writes as a StatefulSet does.
func numbered(id string) (name string, n int, ok bool) {
	name = strings.TrimRight(id, "0123456789")
	n, err := strconv.Atoi(id[len(name):])
	return name, n, err == nil && strconv.Itoa(n) == id[len(name):]
}

// members returns a row for each node of a cluster, and whether there are several groups of keys: those of RAFT NODES then, since a node that is removed
// may be in RAFT SERVER LIST, which shows group 0, for a moment; else those of RAFT SERVER LIST.
func (c *client) members() (nodes []row, several bool, err error) {
	info, err := c.ask("RAFT", "INFO")
	if err != nil {
		return nil, false, err
	}
	several = row{info}.value("groups").Int > 1
	list := []string{"RAFT", "SERVER", "LIST"}
	if several {
		list = []string{"RAFT", "NODES"}
	}
	v, err := c.ask(list...)
	return rowsOf(v), several, err
}

// of returns those of the members of a cluster that are to leave: the highest number first, or just the one that is named.
// The latter must be a member.
func (l *leavers) of(members []row) (ids []string, err error) {
	if !l.above {
		if _, ok := rowOf(members, l.id); !ok {
			return nil, noNode(l.id, members)
		}
		return []string{l.id}, nil
	}
	least, from, _ := numbered(l.id)
	numbers := map[string]int{}
	for _, m := range members {
		if name, n, ok := numbered(m.text("id")); ok && name == least && n >= from {
			ids = append(ids, m.text("id"))
			numbers[m.text("id")] = n
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return numbers[b] - numbers[a] })
	return ids, nil
}

// noNode is the error for an id that no node has.
func noNode(id string, members []row) error {
	var all []string
	for _, m := range members {
		all = append(all, m.text("id"))
	}
	return fmt.Errorf("the cluster has no node %s: its nodes are %s", id, strings.Join(all, ", "))
}

// rowOf returns the row of a node.
func rowOf(rows []row, id string) (row, bool) {
	at := slices.IndexFunc(rows, func(r row) bool { return r.text("id") == id })
	if at < 0 {
		return row{}, false
	}
	return rows[at], true
}

// tries is how often in a row a command that waits asks in vain, about a second apart.
const tries = 30

// patiently runs something with a connection to the server. It tries again while nobody answers, or nobody leads: with a time-out, or after a node has
// answered once. Without, the address may be wrong.
func (l *leavers) patiently(run func(*client) error) (err error) {
	for try := 1; ; try++ {
		if err = l.once(run); err == nil {
			l.begun = true
			return nil
		}
		if !passes(err) || l.end.IsZero() && !l.begun || try == tries || l.late() {
			return err
		}
		l.pause()
	}
}

// once runs something with a new connection: the node that was asked before may have been started again.
func (l *leavers) once(run func(*client) error) error {
	a, err := l.dial()
	if err != nil {
		return unanswered(err)
	}
	defer func() { _ = a.Close() }()
	return run(a)
}

// late reports whether it is time to give up.
func (l *leavers) late() bool { return !l.end.IsZero() && !time.Now().Before(l.end) }

// passes reports whether an error may be gone a moment later: nobody answered, or the nodes choose another leader.
func passes(err error) bool {
	reply, ok := errors.AsType[replied](err)
	if !ok {
		return true
	}
	kind, _, _ := strings.Cut(reply.Error(), " ")
	return slices.Contains([]string{"CLUSTERDOWN", "LOADING", "MOVED", "TRYAGAIN", "UNKNOWNOUTCOME"}, kind)
}
