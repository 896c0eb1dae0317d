package server

import (
	"errors"
	"slices"
	"strings"

	"limitdb/config"
	"limitdb/internal/glob"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// CONFIG: the directives at run time.
func configRows() []row {
	sub := handler.Rows[call]("server", "O(n) for n directives", spec.Admin|spec.Loading|spec.Stale)
	return []row{handler.Container("CONFIG", "server", "A container for commands about the configuration.",
		sub("GET", -3, 0, "Returns the directives that match any of the patterns, with their values.", (*call).configGet,
			spec.Several(spec.Text("parameter"))),
		sub("SET", -4, spec.Client, "Sets directives: all of those given, or none.", (*call).configSet,
			spec.Argument{Name: "data", Kind: "block", Multiple: true, Args: []spec.Argument{spec.Text("parameter"), spec.Text("value")}}),
		sub("REWRITE", 2, spec.Client, "Writes the current values to the configuration file.", func(c *call) {
			c.client.Background(c.srv.registry.Rewrite, c.okOrFail)
		}),
		sub("RESETSTAT", 2, 0, "Resets the statistics of INFO.", func(c *call) {
			c.srv.resetStats()
			c.OK()
		}),
	)}
}

// patternBytes is the most bytes that the patterns of one CONFIG GET have together. Each
// pattern is compiled and matched against every directive.
const patternBytes = 16 << 10

func (c *call) configGet() {
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

func (c *call) configSet() {
	if len(c.Args)%2 != 0 {
		c.Fail("ERR wrong number of arguments for 'config|set' command")
		return
	}
	var pairs []config.Pair
	for i := 2; i < len(c.Args); i += 2 {
		pairs = append(pairs, config.Pair{Name: string(c.Args[i]), Value: string(c.Args[i+1])})
	}
	about := switches(pairs)
	if about != "" && (c.srv.special.Load()|c.client.early)&specialLoading != 0 {
		c.Fail(errLoading) // the state to keep is not loaded yet
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
	if !kept && !opens(pairs) { // these take time, for the disk or to look up a host name
		if done, err := c.srv.registry.TrySet(pairs...); done {
			c.client.setReaderLimits() // for what follows in this batch
			c.okOrFail(err)
			return
		}
	}
	c.client.Background(set, c.okOrFail)
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
	switch {
	case err == nil:
		c.OK()
	case errors.Is(err, ErrSnapshotting):
		c.Fail(errSnapshotting)
	default:
		c.Fail("ERR " + spec.Plain(err))
	}
}
