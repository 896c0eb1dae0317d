package server

import (
	"strings"

	"limitdb/resp"
	"limitdb/script"
)

// scriptCommands are the commands of scripts.
func scriptCommands() []command {
	row := func(name, summary string, f flags, bySHA, readOnly bool) command {
		first := argument{name: "script", kind: "string"}
		if bySHA {
			first.name = "sha1"
		}
		return command{
			name: name, arity: -3, flags: f | flagMovableKeys, numKeys: 2, group: "scripting", since: "1.0.0",
			complexity: "Depends on the script.", summary: summary,
			args: []argument{
				first, integer("numkeys"),
				{name: "key", kind: "key", optional: true, multiple: true},
				{name: "arg", kind: "string", optional: true, multiple: true},
			},
			run: (*call).evalAlone, atomic: func(c *call, t *txn) { c.evalIn(t, bySHA, readOnly) },
		}
	}
	sub := func(name, summary string, arity int, f flags, run func(*call), args ...argument) command {
		return command{name: name, arity: arity, flags: f, group: "scripting", since: "1.0.0", complexity: "O(1)", summary: summary, run: run, args: args}
	}
	return []command{
		row("EVAL", "Runs a Lua script in one atomic step.", flagWrite, false, false),
		row("EVALSHA", "Runs a Lua script that the server has, by its SHA-1.", flagWrite, true, false),
		row("EVAL_RO", "Runs a Lua script that writes nothing.", flagReadonly, false, true),
		row("EVALSHA_RO", "Runs a Lua script that writes nothing, by its SHA-1.", flagReadonly, true, true),
		{
			name: "SCRIPT", arity: -2, group: "scripting", since: "1.0.0", complexity: "O(1)", summary: "Container for commands about scripts.",
			subs: []command{
				sub("LOAD", "Compiles a script and returns its SHA-1.", 3, flagLead, (*call).scriptLoad, text("script")),
				sub("EXISTS", "Reports which scripts the server has.", -3, flagLead, (*call).scriptExists, argument{name: "sha1", kind: "string", multiple: true}),
				sub("FLUSH", "Forgets all scripts.", -2, flagLead, (*call).scriptFlush, oneOf("flush-type", word("ASYNC"), word("SYNC"))),
				sub("KILL", "Ends the scripts that run. They leave nothing.", 2, flagLead, func(c *call) {
					if !c.srv.scripts.kill() {
						c.fail("NOTBUSY No scripts in execution right now.")
						return
					}
					c.ok()
				}),
				sub("HELP", "Lists the subcommands.", 2, 0, (*call).help),
			},
		},
	}
}

// evalAlone is EVAL and its relatives outside of a transaction.
func (c *call) evalAlone() {
	if text := c.checkEval(); text != "" {
		c.fail(text)
		return
	}
	c.atomically()
}

// checkEval returns the error for wrong numbers of keys, or "".
func (c *call) checkEval() string {
	switch n, ok := resp.ParseInt(c.args[2]); {
	case !ok:
		return errNotInt
	case n > int64(len(c.args)-3):
		return "ERR Number of keys can't be greater than number of args"
	case n < 0:
		return "ERR Number of keys can't be negative"
	}
	return ""
}

func (c *call) evalIn(t *txn, bySHA, readOnly bool) {
	if text := c.checkEval(); text != "" {
		c.fail(text)
		return
	}
	mode := c.srv.set.Scripts.Get()
	if mode == "no" {
		c.fail("ERR scripts are turned off by the directive scripts; RL.TAKE key GCRA 100/m decides in one atomic step")
		return
	}
	var s *script.Script
	if bySHA {
		if s = c.srv.scripts.compiled(strings.ToLower(string(c.args[1]))); s == nil {
			c.fail("NOSCRIPT No matching script. Please use EVAL.")
			return
		}
	} else {
		var text string
		if s, text = c.compile(c.args[1]); text != "" {
			c.fail(text)
			return
		}
	}
	if mode == "known" && knownScript(s.SHA) == "" {
		c.fail(errUnknownScript)
		return
	}
	c.eval(t, s, readOnly)
}

const errUnknownScript = "ERR the directive scripts allows only the scripts of known limiters (known), and this is none; RL.TAKE key GCRA 100/m decides in one atomic step"

// compile compiles a script. It returns the text of the error, or "".
func (c *call) compile(source []byte) (s *script.Script, text string) {
	s, err := c.srv.scripts.compile(source)
	if err != nil {
		return nil, "ERR " + err.Error()
	}
	return s, ""
}

func (c *call) scriptLoad() {
	mode := c.srv.set.Scripts.Get()
	if mode == "no" || mode == "known" && knownScript(script.SHA(c.args[2])) == "" {
		c.fail(errUnknownScript)
		return
	}
	s, text := c.compile(c.args[2])
	if text != "" {
		c.fail(text)
		return
	}
	c.text(s.SHA)
}

func (c *call) scriptExists() {
	c.array(len(c.args) - 2)
	for _, sha := range c.args[2:] {
		c.yes(c.srv.scripts.compiled(strings.ToLower(string(sha))) != nil)
	}
}

func (c *call) scriptFlush() {
	if len(c.args) > 3 || len(c.args) == 3 && !foldEqual(c.args[2], "ASYNC") && !foldEqual(c.args[2], "SYNC") {
		c.fail("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
		return
	}
	c.srv.scripts.flush()
	c.ok()
}
