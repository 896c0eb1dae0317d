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
	sub := func(name string, arity int, summary string, run func(*session, [][]byte), args ...argument) command {
		return command{
			name: name, arity: arity, flags: flagAdmin | flagLoading | flagStale, group: "server", since: "1.0.0",
			complexity: "O(n) for n directives", summary: summary, args: args, run: run,
		}
	}
	return []command{{
		name: "CONFIG", arity: -2, group: "server", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "A container for commands about the configuration.",
		subs: []command{
			sub("GET", -3, "Replies the directives that match any of the patterns, with their values.", (*session).configGet,
				argument{name: "parameter", kind: "string", multiple: true}),
			sub("SET", -4, "Sets directives: all of them, or none.", (*session).configSet,
				argument{name: "data", kind: "block", multiple: true, args: []argument{{name: "parameter", kind: "string"}, {name: "value", kind: "string"}}}),
			sub("REWRITE", 2, "Writes the values in force to the configuration file.", (*session).configRewrite),
			sub("RESETSTAT", 2, "Starts the figures of INFO anew.", func(s *session, _ [][]byte) {
				s.srv.resetStats()
				s.ok()
			}),
			sub("HELP", 2, "Lists the subcommands.", (*session).help),
		},
	}}
}

// patternBytes is the most that the patterns of one CONFIG GET have together: each
// is compiled, and held against every directive.
const patternBytes = 16 << 10

func (s *session) configGet(args [][]byte) {
	patterns, bytes := make([]string, 0, len(args)-2), 0
	for _, a := range args[2:] {
		patterns = append(patterns, string(a))
		if bytes += len(a); len(a) > glob.MaxPattern || bytes > patternBytes {
			s.fail(errPatternTooLong)
			return
		}
	}
	pairs := s.srv.registry.Get(patterns...)
	s.mapOf(len(pairs))
	for _, p := range pairs {
		s.text(p.Name)
		s.text(p.Value)
	}
}

func (s *session) configSet(args [][]byte) {
	if len(args)%2 != 0 {
		s.fail("ERR wrong number of arguments for 'config|set' command")
		return
	}
	var pairs []config.Pair
	for i := 2; i < len(args); i += 2 {
		pairs = append(pairs, config.Pair{Name: string(args[i]), Value: string(args[i+1])})
	}
	about := switches(pairs)
	if about != "" && (s.srv.special.Load()|s.early)&specialLoading != 0 {
		s.fail(errLoading) // what is to be kept is not there yet
		return
	}
	kept := about != "" && s.srv.durable.Durability != nil
	set := func() error {
		back, err := s.srv.registry.Swap(pairs...)
		if err != nil || !kept {
			return err
		}
		if err := s.srv.durable.Switch(); err != nil {
			back()
			return errors.New("CONFIG SET failed (possibly related to argument '" + about + "') - " + plainCut([]byte(err.Error())))
		}
		return nil
	}
	if kept || opens(pairs) { // which takes its time: for the disk, to look up a host's name
		s.inBackground(set, s.okOrFail)
		return
	}
	err := set()
	s.setReaderLimits() // for what follows in this batch
	s.okOrFail(err)
}

// switches returns the name of the first directive in pairs that turns the log on or off, "" for none.
func switches(pairs []config.Pair) string {
	for _, p := range pairs {
		if strings.EqualFold(p.Name, "appendonly") || strings.EqualFold(p.Name, "save") {
			return p.Name
		}
	}
	return ""
}

// opens reports whether any of the pairs makes the server listen elsewhere.
func opens(pairs []config.Pair) bool {
	return slices.ContainsFunc(pairs, func(p config.Pair) bool {
		return strings.EqualFold(p.Name, "bind") || strings.EqualFold(p.Name, "port")
	})
}

// okOrFail replies with OK, or with the error.
func (s *session) okOrFail(err error) {
	if err != nil {
		s.fail("ERR " + err.Error())
		return
	}
	s.ok()
}

func (s *session) configRewrite([][]byte) {
	if err := s.srv.registry.Rewrite(); err != nil {
		s.fail("ERR " + err.Error())
		return
	}
	s.ok()
}
