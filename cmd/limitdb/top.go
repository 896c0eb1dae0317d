package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
	"limitdb/resp"
)

func topCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "top [--once] [-a ADDRESS] [FILE] [--directive value …]",
		Short: "Watch a running server: decisions, their times, keys, and who is limited",
		Long: `Connects to the address that a server with this configuration listens on, and shows every
second what the server does. Press q to quit. Without a terminal it prints each picture below
the last; --once prints one, after one second, and exits. -a names another address, host:port or
the path of a unix socket, as for limitdb bench. LIMITDB_REQUIREPASS has the password.`,
		Example:            "  limitdb top\n  limitdb top -a 10.0.0.7:6379\n  limitdb top --once",
		DisableFlagParsing: true, DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return c.Help()
			}
			args, once := cli.CutFlag(args, "--once")
			args, err := cli.CutAddress(args)
			if err != nil {
				return err
			}
			registry, set := config.New()
			if err := registry.Load(config.Sources{Args: args, Environ: os.Environ()}); err != nil {
				return err
			}
			return top(set, once)
		},
	}
	c.Flags().Bool("once", false, "print one picture, and exit")
	cli.AddressFlag(c)
	return c
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
	if keys, err := c.ask("RL.TOP", "COUNT", "40"); err == nil {
		for _, e := range keys.Elems {
			if len(e.Elems) == 2 {
				s.denied = append(s.denied, topKey{e.Elems[0].Text, e.Elems[1].Int})
			}
		}
	}
	if n := s.number("rules"); 0 < n && n <= topRules {
		if rules, err := c.ask("RL.RULES", "STATS"); err == nil {
			s.addRules(rules)
		}
	}
	return s, nil
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
