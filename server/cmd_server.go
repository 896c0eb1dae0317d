package server

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"limitdb/config"
	"limitdb/internal/glob"
	"limitdb/resp"
	"limitdb/server/durable"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// The server as a whole.
func serverRows() []row {
	cmd := handler.Rows[call]("server", "O(1)", spec.Stale)
	clock := cmd("RL.CLOCK", -1, spec.Admin|spec.Client, "Returns how far the time of decisions is behind the machine's clock; ADOPT takes over the machine's time.", clockCommand,
		spec.Optional(spec.Word("ADOPT")))
	clock.Example = "RL.CLOCK ADOPT"
	return []row{
		cmd("INFO", -1, spec.Loading|spec.Dangerous, "Describes the server, in sections.", infoCommand, spec.Optional(spec.Several(spec.Text("section")))),
		cmd("TIME", 1, spec.Script|spec.Fast|spec.Loading, "Returns the time of decisions: Unix seconds and microseconds.", func(c *call) {
			c.Texts([]string{strconv.FormatInt(c.Now/1e9, 10), strconv.FormatInt(c.Now/1e3%1e6, 10)})
		}),
		clock,
		cmd("MONITOR", 1, spec.AllKeys|spec.Client|spec.Admin|spec.Loading, "Streams every command that the server runs from now on, to at most 32 clients at a time. It cuts long arguments and long lists of them.",
			monitorCommand),
		cmd("SHUTDOWN", -1, spec.Client|spec.NoMulti|spec.Admin|spec.Loading, "Stops the server.", shutdown,
			spec.OneOf("save-selector", spec.Word("NOSAVE"), spec.Word("SAVE")), spec.Optional(spec.Word("NOW")), spec.Optional(spec.Word("FORCE"))),
	}
}

// clockCommand is RL.CLOCK.
func clockCommand(c *call) {
	moved := int64(0)
	switch {
	case len(c.Args) == 1:
	case len(c.Args) == 2 && resp.EqualFold(c.Args[1], "ADOPT"):
		if c.srv.opts.Replication != nil {
			c.Fail("ERR no node can move the time of the cluster")
			return
		}
		if moved = c.srv.clock.Adopt(); moved > 0 {
			c.srv.log.Warn("decisions adopted the machine's clock, as a client asked", "addr", c.client.pub.Addr(), "forwards", time.Duration(moved))
		}
		c.Now = max(c.Now, c.group.Now())
	default:
		c.Fail(spec.ErrSyntax)
		return
	}
	c.Fields("time", c.Now/1e3, "behind", c.group.Behind()/1e3, "moved", moved/1e3)
}

func shutdown(c *call) {
	now, save, noSave := false, false, false
	for _, a := range c.Args[1:] {
		switch {
		case resp.EqualFold(a, "NOW"), resp.EqualFold(a, "FORCE"):
			now = true
		case resp.EqualFold(a, "NOSAVE"):
			noSave = true
		case resp.EqualFold(a, "SAVE"):
			save = true
		case resp.EqualFold(a, "ABORT"):
			c.Fail("ERR No shutdown in progress.")
			return
		default:
			c.Fail(spec.ErrSyntax)
			return
		}
	}
	switch {
	case save && noSave:
		c.Fail(spec.ErrSyntax)
		return
	case save && !c.srv.durable.Keeps(c.inner()):
		return
	}
	if c.srv.opts.Shutdown == nil {
		c.Fail("ERR SHUTDOWN is not available here")
		return
	}
	c.srv.log.Warn("a client sent SHUTDOWN", "addr", c.client.pub.Addr())
	srv := c.srv
	go func() {
		if save {
			srv.Snapshot()
		}
		srv.opts.Shutdown(now)
	}()
}

// CONFIG: the directives at run time.
func configRows() []row {
	sub := handler.Rows[call]("server", "O(n) for n directives", spec.Admin|spec.Loading|spec.Stale)
	return []row{handler.Container("CONFIG", "server", "A container for commands about the configuration.",
		sub("GET", -3, 0, "Returns the directives that match any of the patterns, with their values.", configGet,
			spec.Several(spec.Text("parameter"))),
		sub("SET", -4, spec.Client, "Sets directives: all of those given, or none.", configSet,
			spec.Argument{Name: "data", Kind: "block", Multiple: true, Args: []spec.Argument{spec.Text("parameter"), spec.Text("value")}}),
		sub("REWRITE", 2, spec.Client, "Writes the current values to the configuration file.", func(c *call) {
			c.Client.Background(c.srv.registry.Rewrite, func(err error) { durable.Reply(c.inner(), err) })
		}),
		sub("RESETSTAT", 2, 0, "Resets the statistics of INFO.", resetStat),
	)}
}

// patternBytes is the most bytes that the patterns of one CONFIG GET have together. Each
// pattern is compiled and matched against every directive.
const patternBytes = 16 << 10

func configGet(c *call) {
	patterns, bytes := make([]string, 0, len(c.Args)-2), 0
	for _, a := range c.Args[2:] {
		patterns = append(patterns, string(a))
		if bytes += len(a); len(a) > glob.MaxPattern || bytes > patternBytes {
			c.Fail(spec.ErrPatternTooLong)
			return
		}
	}
	pairs := c.srv.registry.Get(patterns...)
	c.Map(len(pairs))
	for _, p := range pairs {
		c.Text(p.Name)
		c.Text(p.Value)
	}
}

func configSet(c *call) {
	if len(c.Args)%2 != 0 {
		c.Fail("ERR wrong number of arguments for 'config|set' command")
		return
	}
	var pairs []config.Pair
	for i := 2; i < len(c.Args); i += 2 {
		pairs = append(pairs, config.Pair{Name: string(c.Args[i]), Value: string(c.Args[i+1])})
	}
	about := switches(pairs)
	if about != "" && (c.group.Special.Load()|c.client.early)&specialLoading != 0 {
		c.Fail(errLoading) // the state to keep is not loaded yet
		return
	}
	kept := about != "" && c.srv.durable.Source != nil
	set := func() error {
		back, err := c.srv.registry.Swap(pairs...)
		if err != nil || !kept {
			return err
		}
		if err := c.srv.durable.Switch(); err != nil {
			back()
			return errors.New("CONFIG SET failed (possibly related to argument '" + about + "') - " + err.Error())
		}
		return nil
	}
	if !kept && !opens(pairs) { // these take time, for the disk or to look up a host name
		if done, err := c.srv.registry.TrySet(pairs...); done {
			c.client.rd.setLimits(c.srv, c.client.authed) // for what follows in this batch
			durable.Reply(c.inner(), err)
			return
		}
	}
	c.Client.Background(set, func(err error) { durable.Reply(c.inner(), err) })
}

// switches returns the name of the first directive in pairs that turns the log on or off, or "".
func switches(pairs []config.Pair) string {
	for _, p := range pairs {
		if strings.EqualFold(p.Name, "appendonly") || strings.EqualFold(p.Name, "save") {
			return p.Name
		}
	}
	return ""
}

// opens reports whether any of the pairs changes where the server listens.
func opens(pairs []config.Pair) bool {
	return slices.ContainsFunc(pairs, func(p config.Pair) bool {
		return strings.EqualFold(p.Name, "bind") || strings.EqualFold(p.Name, "port")
	})
}
