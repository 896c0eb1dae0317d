package server

import (
	"errors"
	"slices"
	"strings"

	"limitdb/config"
	"limitdb/internal/glob"
)

// CONFIG: the directives at run time.
func configCommands() []command {
	sub := func(name string, arity int, f flags, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f | flagAdmin | flagLoading | flagStale, group: "server", since: "1.0.0",
			complexity: "O(n) for n directives", summary: summary, args: args, run: run,
		}
	}
	return []command{{
		name: "CONFIG", arity: -2, group: "server", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "Container for commands about the configuration.",
		subs: []command{
			sub("GET", -3, 0, "Returns the directives that match any of the patterns, with their values.", (*call).configGet,
				argument{name: "parameter", kind: "string", multiple: true}),
			sub("SET", -4, flagClient, "Sets directives: all of those given, or none.", (*call).configSet,
				argument{name: "data", kind: "block", multiple: true, args: []argument{{name: "parameter", kind: "string"}, {name: "value", kind: "string"}}}),
			sub("REWRITE", 2, 0, "Writes the current values to the configuration file.", (*call).configRewrite),
			sub("RESETSTAT", 2, 0, "Resets the statistics of INFO.", func(c *call) {
				c.srv.resetStats()
				c.ok()
			}),
			sub("HELP", 2, 0, "Lists the subcommands.", (*call).help),
		},
	}}
}

// patternBytes is the most bytes that the patterns of one CONFIG GET have together. Each
// pattern is compiled and matched against every directive.
const patternBytes = 16 << 10

func (c *call) configGet() {
	patterns, bytes := make([]string, 0, len(c.args)-2), 0
	for _, a := range c.args[2:] {
		patterns = append(patterns, string(a))
		if bytes += len(a); len(a) > glob.MaxPattern || bytes > patternBytes {
			c.fail(errPatternTooLong)
			return
		}
	}
	pairs := c.srv.registry.Get(patterns...)
	c.mapOf(len(pairs))
	for _, p := range pairs {
		c.text(p.Name)
		c.text(p.Value)
	}
}

func (c *call) configSet() {
	if len(c.args)%2 != 0 {
		c.fail("ERR wrong number of arguments for 'config|set' command")
		return
	}
	var pairs []config.Pair
	for i := 2; i < len(c.args); i += 2 {
		pairs = append(pairs, config.Pair{Name: string(c.args[i]), Value: string(c.args[i+1])})
	}
	about := switches(pairs)
	if about != "" && (c.srv.special.Load()|c.client.early)&specialLoading != 0 {
		c.fail(errLoading) // the state to keep is not loaded yet
		return
	}
	kept := about != "" && c.srv.durable.Durability != nil
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
	if kept || opens(pairs) { // this takes time, for the disk or to look up a host name
		c.inBackground(set, c.okOrFail)
		return
	}
	err := set()
	c.client.setReaderLimits() // for what follows in this batch
	c.okOrFail(err)
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

// okOrFail replies with OK if err is nil, and otherwise with the error.
func (c *call) okOrFail(err error) {
	if err != nil {
		c.fail("ERR " + err.Error())
		return
	}
	c.ok()
}

func (c *call) configRewrite() {
	if err := c.srv.registry.Rewrite(); err != nil {
		c.fail("ERR " + err.Error())
		return
	}
	c.ok()
}
