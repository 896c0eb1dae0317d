package server

import (
	"limitdb/known"
	"limitdb/resp"
	"limitdb/script"
	"limitdb/server/handler"
	"limitdb/server/scripts"
	"limitdb/server/spec"
)

// scriptRows are the commands of scripts.
func scriptRows() []row {
	run := handler.Rows[call]("scripting", "Depends on the script.", spec.MovableKeys)
	eval := func(name, summary string, f spec.Flags, bySHA bool) row {
		first := spec.Text("script")
		if bySHA {
			first.Name, f = "sha1", f|spec.SelfTimed|spec.Ahead
		}
		r := run(name, -3, f, summary, nil, first, spec.Integer("numkeys"),
			spec.Optional(spec.Several(spec.Key("key"))), spec.Optional(spec.Several(spec.Text("arg"))))
		r.NumKeys, r.Atomic = 2, func(c *call, t *handler.Txn) { c.evalIn(t, bySHA, f&spec.Readonly != 0) }
		return r
	}
	sub := handler.Rows[call]("scripting", "O(1)", spec.Lead)
	return []row{
		eval("EVAL", "Runs a Lua script in one atomic step.", spec.Write, false),
		eval("EVALSHA", "Runs a Lua script that the server has, by its SHA-1.", spec.Write, true),
		eval("EVAL_RO", "Runs a Lua script that writes nothing.", spec.Readonly, false),
		eval("EVALSHA_RO", "Runs a Lua script that writes nothing, by its SHA-1.", spec.Readonly, true),
		handler.Container("SCRIPT", "scripting", "A container for commands about scripts.",
			sub("LOAD", 3, 0, "Compiles a script and returns its SHA-1.", (*call).scriptLoad, spec.Text("script")),
			sub("EXISTS", -3, 0, "Reports which scripts the server has.", (*call).scriptExists, spec.Several(spec.Text("sha1"))),
			sub("FLUSH", -2, 0, "Forgets all scripts.", (*call).scriptFlush, spec.OneOf("flush-type", spec.Word("ASYNC"), spec.Word("SYNC"))),
			sub("KILL", 2, 0, "Ends the running scripts. None of their writes is kept.", func(c *call) {
				if !c.srv.scripts.Kill() {
					c.Fail("NOTBUSY No scripts in execution right now.")
					return
				}
				c.OK()
			}),
		),
	}
}

// scriptKeys returns the keys and the arguments of a script. It returns the text of the error for a wrong number of keys, or "".
func (c *call) scriptKeys() (keys, argv [][]byte, text string) {
	n, ok := resp.ParseInt(c.Args[2])
	rest := c.Args[3:]
	switch {
	case !ok:
		return nil, nil, spec.ErrNotInt
	case n > int64(len(rest)):
		return nil, nil, "ERR Number of keys can't be greater than number of args"
	case n < 0:
		return nil, nil, "ERR Number of keys can't be negative"
	}
	return rest[:n:n], rest[n:], ""
}

func (c *call) evalIn(t *handler.Txn, bySHA, readOnly bool) {
	keys, argv, text := c.scriptKeys()
	if text != "" {
		c.Fail(text)
		return
	}
	mode := c.srv.set.Scripts.Get()
	if mode == "no" {
		c.Fail("ERR scripts are turned off by the directive scripts; RL.TAKE key GCRA 100/m decides in one atomic step")
		return
	}
	var s *scripts.Script
	if bySHA {
		if s = c.loaded(c.Args[1]); s == nil {
			c.Fail("NOSCRIPT No matching script. Please use EVAL.")
			return
		}
	} else {
		if s, text = c.compile(c.Args[1]); text != "" {
			c.Fail(text)
			return
		}
	}
	if mode == "known" && s.Known == nil {
		c.Fail(errUnknownScript)
		return
	}
	c.eval(t, s, keys, argv, readOnly)
}

const errUnknownScript = "ERR the directive scripts allows only the scripts of known limiters (known), and this is not one; RL.TAKE key GCRA 100/m decides in one atomic step"

// loaded returns the script with that SHA-1, nil if the server does not have it. A pipeline usually repeats one script.
func (c *call) loaded(sha []byte) *scripts.Script {
	if c.client == nil {
		return c.srv.scripts.Compiled(sha)
	}
	last, flushes := &c.client.lastScript, c.srv.scripts.Flushes()
	if last.loaded == nil || last.flushes != flushes || string(sha) != last.loaded.SHA {
		last.loaded, last.flushes = c.srv.scripts.Compiled(sha), flushes
	}
	return last.loaded
}

// compile compiles a script. It returns the text of the error, or "".
func (c *call) compile(source []byte) (s *scripts.Script, text string) {
	s, err := c.srv.scripts.Compile(source)
	if err != nil {
		return nil, "ERR " + err.Error()
	}
	return s, ""
}

func (c *call) scriptLoad() {
	mode := c.srv.set.Scripts.Get()
	if mode == "no" || mode == "known" && known.Find(script.SHA(c.Args[2])) == nil {
		c.Fail(errUnknownScript)
		return
	}
	s, text := c.compile(c.Args[2])
	if text != "" {
		c.Fail(text)
		return
	}
	c.Text(s.SHA)
}

func (c *call) scriptExists() {
	c.Array(len(c.Args) - 2)
	for _, sha := range c.Args[2:] {
		c.Bit(c.srv.scripts.Compiled(sha) != nil)
	}
}

func (c *call) scriptFlush() {
	if len(c.Args) > 3 || len(c.Args) == 3 && !resp.EqualFold(c.Args[2], "ASYNC") && !resp.EqualFold(c.Args[2], "SYNC") {
		c.Fail("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
		return
	}
	c.srv.scripts.Flush()
	c.OK()
}
