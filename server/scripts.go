package server

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"

	"limitdb/known"
	"limitdb/resp"
	"limitdb/script"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/monitor"
	"limitdb/server/request"
	"limitdb/server/scripts"
	"limitdb/server/spec"
	"limitdb/server/values"
	"limitdb/value"
)

// Scripts. A script runs in one transaction of the engine, with the handlers that clients'
// commands have. It runs on the event loop of its client and holds the shards of its keys, or all
// shards if it needs a key that it has not named. So its steps, its memory and its time are
// bounded. Its writes are stored when it ends; if the server ends it, none is stored.

const (
	// scriptSteps and scriptMemory bound one run: instructions of the virtual machine, and bytes
	// that the script allocates.
	scriptSteps  = 100_000_000
	scriptMemory = 64 << 20
)

// maxCalled is how many bytes of lines MONITOR shows of the commands of one script.
const maxCalled = 64 << 10

// host runs the commands of a script.
type host struct {
	call
	caller *call // that of EVAL
	t      *handler.Txn
	of     *scripts.Run
	phase  phase
	shown  bool // by MONITOR
	slot   int  // of the keys that the script names, with several groups
}

// Call runs one command of the script.
func (h *host) Call(args [][]byte, resp3 bool, b []byte) []byte {
	h.Out, h.Proto, h.Failed = b, resp.RESP2, false
	if resp3 {
		h.Proto = resp.RESP3
	}
	h.Args = args
	_, text := h.admit(h.phase, 0)
	if text == "" && h.srv.several() && h.cmd.HasKeys() && h.cmd.slot(h.slot, args) != h.slot {
		text = errStrangeKey
	}
	if text == "" && h.cmd.audited {
		text = h.auditScript(h.caller)
	}
	if text != "" {
		h.Fail(text)
		return h.Out
	}
	mark := len(h.Out)
	took := h.run(h.phase, h.t, false)
	h.caller.Quorum = h.caller.Quorum || h.Quorum || h.cmd.Flags&spec.Quorum != 0
	h.t.Ran(h.cmd.ID, took, h.Failed)
	if h.shown && h.cmd.Flags&spec.SkipMonitor == 0 && len(h.called) < maxCalled {
		h.called = monitor.AppendLine(h.called, "lua", h.Now, h.srv.redact.Args(&h.cmd.Command, args))
	}
	if h.t.Err != nil { // the transaction begins again, or is given up
		h.of.Stop()
		h.Out = resp.AppendError(h.Out[:mark], request.ErrorText(h.t.Err))
	}
	return h.Out
}

// auditScript is beginChange for a command that a script of c calls. A step that begins again makes its changes again, but they are written once.
func (h *host) auditScript(c *call) (text string) {
	if at := c.replayed; at < len(c.scripted) && c.scripted[at].Is(h.srv.redact.Args(&h.cmd.Command, h.Args)) {
		c.replayed++
		return ""
	}
	if text = beginChange(&h.call, "script"); len(h.changes) > 0 {
		c.scripted = append(c.scripted[:c.replayed], h.changes...)
		c.replayed, c.changes, h.changes = len(c.scripted), append(c.changes, h.changes...), nil
	}
	return text
}

// Attend lets the server end the script, or hold it for a moment.
func (h *host) Attend() error { return h.of.Attend() }

// Log writes a line of the script to the server's log.
func (h *host) Log(level int, message string) {
	if level >= 2 {
		h.srv.log.Info("a script logged a message", "message", logged([]byte(message)))
	}
}

// eval runs a script in a transaction and replies.
func (c *call) eval(t *handler.Txn, s *scripts.Script, keys, argv [][]byte, readOnly bool) {
	if s.Known != nil && !readOnly && (c.Rights == nil || c.Rights.Plain()) && c.native(s.Known, keys, argv) {
		return
	}
	if c.started == 0 {
		c.started = c.srv.clock.Now()
	}
	vm, run := c.srv.scripts.Begin(c.started) // of the first run, if the script begins again
	h := &host{caller: c, t: t, of: run, phase: inScript, call: c.srv.newCall(c.group, c.Began, resp.RESP2, nil)}
	if readOnly || s.ReadOnly {
		h.phase = inReadScript
	}
	h.Rights, h.client = c.Rights, nil
	h.Origin = c.From()
	h.Now, h.Table, h.Lane, h.Most, h.Step = c.Now, c.Table, c.Lane, c.srv.bounds.Memory/4, t
	h.shown = c.group.Special.Load()&specialMonitor != 0
	if h.slot = group.NoSlot; c.srv.several() {
		for _, key := range keys {
			h.slot = group.WithKey(h.slot, key)
		}
	}
	mark := len(c.Out)
	out, err := vm.Run(s.Script, keys, argv, h, c.srv.bounds, &run.Flag, c.Proto == resp.RESP3, c.Out)
	c.srv.scripts.End(vm, run)
	c.called = h.called
	switch {
	case run.Killed():
		t.Cancel(scriptError{script.ErrStopped})
	case t.Err == nil && err != nil && run.Late():
		t.Err = errScriptTime
	case t.Err == nil && err != nil && run.Over():
		t.Err = scriptError{script.ErrMemory}
	case t.Err != nil:
		return // it begins again, or is given up
	case err != nil:
		t.Err = scriptError{err}
	default:
		if c.Out = out; len(out) > mark && out[mark] == '-' {
			c.Failed, c.Undecided = true, false
		}
	}
}

// native runs a known script in Go, and reports whether it has replied.
func (c *call) native(s *known.Script, keys, argv [][]byte) bool {
	r := c.script
	if r == nil {
		r = new(known.Run)
		c.script = r
	}
	r.Keys, r.Args, r.Now, r.Proto, r.Out, r.Store = keys, argv, c.Now, c.Proto, c.Out, (*scriptStore)(c)
	done := s.Run(r)
	c.Out = r.Out
	r.Forget()
	return done
}

// scriptStore is what the keys of a known script hold, in the call's transaction.
type scriptStore call

// Get returns what a key holds.
func (s *scriptStore) Get(key []byte) (known.Value, bool) {
	c := (*call)(s)
	if c.cannotUse(key) || c.lacks(key) {
		return known.Value{}, false // the script runs in Lua, whose call is refused
	}
	it := c.Item(c.Step, key)
	return known.Value{Type: it.Type, Expires: it.Expires, Body: it.Body}, it.Kind == 0 && c.Step.Err == nil
}

// Put makes a key hold a value.
func (s *scriptStore) Put(key []byte, v *known.Value, splices []value.Splice) {
	c := (*call)(s)
	if c.cannotUse(key) || c.lacks(key) { // no script changes a key that it has not read
		c.Step.End(errKeyOfOther)
		return
	}
	it := values.Item{Type: v.Type, Expires: v.Expires, Body: v.Body, Late: v.Late}
	if splices != nil {
		c.Change(c.Step, key, &it, splices)
		return
	}
	c.Call.Put(c.Step, key, &it)
}

// cannotUse reports whether the user may not read and change a key.
func (c *call) cannotUse(key []byte) bool {
	return c.Rights != nil && !c.Rights.MayUse(key, spec.Reads|spec.Changes)
}

// errKeyOfOther ends a script that would change a key which its user may not.
var errKeyOfOther = scriptError{script.Wording("The user executing the script can't access one of its keys")}

// scriptError is the end of a script that passed a bound.
type scriptError struct{ error }

// errScriptTime is the end of a script that ran for too long.
var errScriptTime = scriptError{script.Wording("Script ended: it has run for longer than script-time-limit")}

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
		r.NumKeys, r.Do = 2, func(c *call, t *handler.Txn) { c.evalIn(t, bySHA, f&spec.Readonly != 0) }
		return r
	}
	sub := handler.Rows[call]("scripting", "O(1)", spec.Lead)
	return []row{
		eval("EVAL", "Runs a Lua script in one atomic step.", spec.Write, false),
		eval("EVALSHA", "Runs a Lua script that the server has, by its SHA-1.", spec.Write, true),
		eval("EVAL_RO", "Runs a Lua script that writes nothing.", spec.Readonly, false),
		eval("EVALSHA_RO", "Runs a Lua script that writes nothing, by its SHA-1.", spec.Readonly, true),
		handler.Container("SCRIPT", "scripting", "A container for commands about scripts.",
			sub("LOAD", 3, 0, "Compiles a script and returns its SHA-1.", scriptLoad, spec.Text("script")),
			sub("EXISTS", -3, 0, "Reports which scripts the server has.", scriptExists, spec.Several(spec.Text("sha1"))),
			sub("FLUSH", -2, 0, "Forgets all scripts.", scriptFlush, spec.OneOf("flush-type", spec.Word("ASYNC"), spec.Word("SYNC"))),
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

func scriptLoad(c *call) {
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
	c.srv.scripts.Loaded()
	c.Text(s.SHA)
}

func scriptExists(c *call) {
	c.Array(len(c.Args) - 2)
	for _, sha := range c.Args[2:] {
		c.Bit(c.srv.scripts.Compiled(sha) != nil)
	}
}

func scriptFlush(c *call) {
	if len(c.Args) > 3 || len(c.Args) == 3 && !resp.EqualFold(c.Args[2], "ASYNC") && !resp.EqualFold(c.Args[2], "SYNC") {
		c.Fail("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
		return
	}
	c.srv.scripts.Flush()
	c.OK()
}

const (
	// watchEvery is how often the runs of scripts are checked, and watchIdle after how many checks without a run the
	// checks rest until the next begins.
	watchEvery = 5 * time.Millisecond
	watchIdle  = 400
	// heapFactor is by how many times the memory of a script the heap may grow while it runs: by its own, by as much again
	// for its reply, and once more for what it stores.
	heapFactor = 3
)

// watchScripts ends scripts that take too long or too much memory.
func (srv *Server) watchScripts(ctx context.Context) {
	heap := heapOfProcess{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		srv.pulses.watch.Rest()
		select {
		case <-ctx.Done():
			return
		case <-srv.scripts.Begun():
		}
		tick := time.NewTicker(watchEvery)
		for idle := 0; idle < watchIdle && ctx.Err() == nil; idle++ {
			srv.pulses.watch.Rest()
			<-tick.C
			now := srv.clock.Now()
			srv.pulses.watch.Beat(now)
			srv.scripts.Expire(now - int64(srv.set.ScriptTimeLimit.Get()))
			if srv.scripts.Look(heap, heapFactor*uint64(srv.bounds.Memory)) {
				idle = 0
			}
		}
		tick.Stop()
	}
}

// heapOfProcess measures the heap of this process.
type heapOfProcess []metrics.Sample

// InUse implements scripts.Heap.
func (h heapOfProcess) InUse() uint64 {
	metrics.Read(h)
	return h[0].Value.Uint64()
}

// Collect implements scripts.Heap.
func (h heapOfProcess) Collect() { runtime.GC() }
