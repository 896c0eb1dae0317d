package server

import (
	"limitdb/internal/stats"
	"limitdb/known"
	"limitdb/resp"
	"limitdb/script"
	"limitdb/server/handler"
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
	t     *handler.Txn
	of    *scripts.Run
	phase phase
	tally stats.Tally // of the commands that have run
	shown bool        // by MONITOR
	took  int64       // ns, of these together
}

// Call runs one command of the script.
func (h *host) Call(args [][]byte, resp3 bool, b []byte) []byte {
	h.Out, h.Proto, h.Failed = b, resp.RESP2, false
	if resp3 {
		h.Proto = resp.RESP3
	}
	h.Args = args
	if _, text := h.admit(h.phase, 0); text != "" {
		h.Fail(text)
		return h.Out
	}
	mark := len(h.Out)
	if h.took += h.run(h.phase, h.t, false); !h.tally.Add(h.cmd.ID, nil, h.Failed) {
		h.count()
		h.tally.Add(h.cmd.ID, nil, h.Failed)
	}
	if h.shown && h.cmd.Flags&spec.SkipMonitor == 0 && len(h.called) < maxCalled {
		h.called = h.srv.monitors.lineFrom(h.called, "lua", h.Now, h.cmd, args)
	}
	if h.t.Err != nil { // the transaction begins again, or is given up
		h.of.Stop()
		h.Out = resp.AppendError(h.Out[:mark], request.ErrorText(h.t.Err))
	}
	return h.Out
}

// count adds the commands that have run to the server's counts.
func (h *host) count() {
	if !h.tally.Empty() {
		h.tally.Flush(h.srv.counts.Stripe(h.Lane), h.took)
		h.took = 0
	}
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
	if s.Known != nil && !readOnly && c.native(s.Known, keys, argv) {
		return
	}
	if c.started == 0 {
		c.started = c.srv.clock.Now()
	}
	vm, run := c.srv.scripts.Begin(c.started) // of the first run, if the script begins again
	h := &host{t: t, of: run, phase: inScript, call: c.srv.newCall(c.Now, resp.RESP2, nil)}
	if readOnly || s.ReadOnly {
		h.phase = inReadScript
	}
	h.Table, h.Lane, h.Most = c.Table, c.Lane, c.srv.bounds.Memory/4
	h.shown = c.srv.special.Load()&specialMonitor != 0
	mark := len(c.Out)
	out, err := vm.Run(s.Script, keys, argv, h, c.srv.bounds, &run.Flag, c.Proto == resp.RESP3, c.Out)
	c.srv.scripts.End(vm, run)
	c.called = h.called
	if t.Err == nil {
		h.count()
	}
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
	it := c.Item(&c.txn, key)
	return known.Value{Type: it.Type, Expires: it.Expires, Body: it.Body}, it.Kind == 0 && c.txn.Err == nil
}

// Put makes a key hold a value.
func (s *scriptStore) Put(key []byte, v *known.Value, splices []value.Splice) {
	c := (*call)(s)
	it := values.Item{Type: v.Type, Expires: v.Expires, Body: v.Body, Late: v.Late}
	if splices != nil {
		c.Change(&c.txn, key, &it, splices)
		return
	}
	c.Call.Put(&c.txn, key, &it)
}

// scriptError is the end of a script that passed a bound.
type scriptError struct{ error }

// errScriptTime is the end of a script that ran for too long.
var errScriptTime = scriptError{script.Wording("Script ended: it has run for longer than script-time-limit")}
