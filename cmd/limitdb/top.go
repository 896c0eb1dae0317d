package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
	"limitdb/dashboard"
	"limitdb/resp"
)

func topCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "top [--once] [-a ADDRESS] [FILE] [--directive value …]",
		Short: "Watch a running server: decisions, their times, keys, and who is limited",
		Long: `Connects to the address that a server with this configuration listens on, and shows every
second what the server does. Press q to quit. Without a terminal it prints each picture below
the last; --once prints one, after one second, and exits. -a names another address, host:port or
the path of a unix socket, as for limitdb bench. LIMITDB_REQUIREPASS has the password.
With several nodes it shows them all, and on each of them the figures of the one that leads.`,
		Example: "  limitdb top\n  limitdb top -a 10.0.0.7:6379\n  limitdb top --once",
	}
	c.Flags().Bool("once", false, "print one picture, and exit")
	return asking(c, func(args []string) error {
		args, once := cli.CutFlag(args, "--once")
		set, err := settingsOf(args)
		if err != nil {
			return err
		}
		return top(set, once)
	})
}

// topEvery is the time between two looks.
const topEvery = time.Second

// top shows the server's figures until somebody presses q.
func top(set *config.Settings, once bool) error {
	var c *client
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	view := topView{}
	in, out := int(os.Stdin.Fd()), int(os.Stdout.Fd())
	screen := !once && term.IsTerminal(in) && term.IsTerminal(out)
	quit := make(chan struct{})
	if screen {
		before, err := term.MakeRaw(in)
		if err != nil {
			return err
		}
		// The other screen, without a cursor.
		fmt.Print("\x1b[?1049h\x1b[?25l")
		defer func() {
			fmt.Print("\x1b[?25h\x1b[?1049l")
			_ = term.Restore(in, before)
		}()
		go waitForQuit(os.Stdin, quit)
	}
	for looks := 1; ; looks++ {
		var s *topSample
		var err error
		if c == nil {
			if c, err = connect(set); err == nil {
				view.address = c.RemoteAddr().String()
			}
		}
		if err == nil {
			s, err = c.look()
		}
		switch {
		case err == nil:
			view.add(s)
		case !screen:
			return fmt.Errorf("no answer: %w", err)
		default:
			if view.problem = err; c != nil {
				_ = c.Close()
				c = nil
			}
		}
		switch {
		case screen:
			width, height, err := term.GetSize(out)
			if err != nil {
				width, height = 80, 24
			}
			fmt.Print("\x1b[H\x1b[2J" + strings.ReplaceAll(strings.TrimSuffix(view.text(width, height), "\n"), "\n", "\r\n"))
		case looks > 1:
			fmt.Println(view.text(200, 50))
			if once {
				return nil
			}
		}
		select {
		case <-quit:
			return nil
		case <-time.After(topEvery):
		}
	}
}

// waitForQuit closes quit when q, Escape or Ctrl+C is typed, or nothing more can be.
func waitForQuit(in io.Reader, quit chan<- struct{}) {
	defer close(quit)
	key := make([]byte, 1)
	for {
		if _, err := in.Read(key); err != nil || strings.ContainsRune("qQ\x1b\x03\x04", rune(key[0])) {
			return
		}
	}
}

// look asks for the server's figures.
func (c *client) look() (*topSample, error) {
	info, err := c.ask("INFO", "everything")
	if err != nil {
		return nil, err
	}
	s := &topSample{at: time.Now(), info: map[string]string{}, times: map[int64]int64{}}
	for line := range strings.Lines(info.Text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			s.info[name] = value
		}
	}
	times, err := c.ask("LATENCY", "HISTOGRAM", "cl.throttle", "gcra", "rl.take", "rl.takeall", "rl.check", "rl.reserve")
	if err != nil {
		return nil, err
	}
	s.addTimes(times)
	// A node that does not lead may know of nobody.
	keys, err := c.try("RL.TOP", "COUNT", "40")
	if err != nil {
		return nil, err
	}
	for _, e := range keys.Elems {
		if len(e.Elems) == 2 {
			s.denied = append(s.denied, topKey{e.Elems[0].Text, e.Elems[1].Int})
		}
	}
	if s.info["raft_id"] != "" {
		if err := c.lookAtCluster(s); err != nil {
			return nil, err
		}
	}
	if n := s.number("rules"); 0 < n && n <= topRules {
		rules, err := c.try("RL.RULES", "STATS")
		if err != nil {
			return nil, err
		}
		s.addRules(rules)
	}
	return s, nil
}

// try is ask for what the server may refuse: an error reply becomes an empty one. Without any reply, the connection is of no more use.
func (c *client) try(words ...string) (resp.Value, error) {
	v, err := c.ask(words...)
	if err != nil && v.Err() != nil {
		return resp.Value{}, nil
	}
	return v, err
}

// lookAtCluster asks for the nodes, and for the figures of the node that leads. If none does, s has those of this node.
func (c *client) lookAtCluster(s *topSample) error {
	nodes, err := c.try("RAFT", "SERVER", "LIST")
	if err != nil {
		return err
	}
	s.nodes = dashboard.Nodes(nodes, s.info["raft_id"])
	if s.info["role"] == "master" {
		return nil
	}
	history, err := c.try("RL.HISTORY")
	if err == nil {
		s.addHistory(history)
	}
	return err
}

// addHistory takes the figures of the node that leads from its reply to RL.HISTORY. What it decides is that of the last second.
func (s *topSample) addHistory(v resp.Value) {
	all := map[string]resp.Value{}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		all[v.Elems[i].Text] = v.Elems[i+1]
	}
	if s.leader = all["node"].Text; s.leader == "" || s.leader == s.info["raft_id"] {
		s.leader = "" // this node has just begun to lead
		return
	}
	set := func(field string, n int64) { s.info[field] = strconv.FormatInt(n, 10) }
	for field, name := range map[string]string{
		"decisions_allowed": "allowed", "decisions_limited": "limited", "decisions_shadow_limited": "shadow",
		"expired_keys": "expired", "evicted_keys": "evicted", "maxmemory": "maxmemory", "maxclients": "maxclients",
	} {
		set(field, all[name].Int)
	}
	s.median, s.p99 = all["p50_nsec"].Int, all["p99_nsec"].Int
	s.rates = map[string]float64{"decisions_allowed": 0, "decisions_limited": 0, "decisions_shadow_limited": 0}
	samples := all["samples"].Elems
	if len(samples) == 0 || len(samples[len(samples)-1].Elems) < 12 {
		return
	}
	last := samples[len(samples)-1].Elems
	took := float64(max(1, last[1].Int)) / 1000
	for i, field := range []string{"decisions_allowed", "decisions_limited", "decisions_shadow_limited"} {
		s.rates[field] = float64(last[2+i].Int) / took
	}
	for i, field := range []string{"keys", "table_bytes", "connected_clients", "waiting"} {
		set(field, last[8+i].Int)
	}
}

// topRules is the most rules that are watched: the counters of more are too much to ask for every second.
const topRules = 1000

// addRules adds the reply to RL.RULES STATS: for each rule, names of figures and their values.
func (s *topSample) addRules(v resp.Value) {
	for _, e := range v.Elems {
		text, count := map[string]string{}, map[string]int64{}
		for i := 0; i+1 < len(e.Elems); i += 2 {
			text[e.Elems[i].Text], count[e.Elems[i].Text] = e.Elems[i+1].Text, e.Elems[i+1].Int
		}
		s.rules = append(s.rules, topRule{
			text["namespace"], text["name"], text["mode"],
			[3]int64{count["allowed"], count["limited"], count["shadow_limited"] + count["candidate_limited"]},
		})
	}
}

// addTimes adds the reply to LATENCY HISTOGRAM: for each command "calls", a number, "histogram_usec", and
// bounds with how many calls took at most that.
func (s *topSample) addTimes(v resp.Value) {
	all := map[int64][]int64{} // the counts of commands that have a bound
	var each []map[int64]int64
	for i := 1; i < len(v.Elems); i += 2 {
		e := v.Elems[i].Elems
		if len(e) != 4 {
			continue
		}
		s.calls += e[1].Int
		times := map[int64]int64{}
		for j := 0; j+1 < len(e[3].Elems); j += 2 {
			times[e[3].Elems[j].Int] = e[3].Elems[j+1].Int
			all[e[3].Elems[j].Int] = nil
		}
		each = append(each, times)
	}
	for bound := range all {
		for _, times := range each {
			s.times[bound] += atMost(times, bound)
		}
	}
}
