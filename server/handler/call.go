// Package handler has what the handlers of commands share: the call that a handler receives, the parts of the server that
// it may use, what it may ask of the client's session, and the form of a row of the command table. It knows no connection.
package handler

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/decisionlog"
	"limitdb/internal/origin"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/denials"
	"limitdb/server/spec"
	"limitdb/server/users"
)

// A Call is one run of a command: everything that a handler receives, and the reply that it writes.
type Call struct {
	resp.Reply
	Failed    bool // the command has replied with an error
	Undecided bool // that error says that another node decides, and that this one did not
	Whole     bool // the command must not yield
	Quorum    bool // the reply waits for a majority, as those of commands with spec.Quorum
	Durable   bool // what the reply reveals is durable already

	Args    [][]byte // the command's name first; valid in the call's first turn only
	Now     int64    // the time of the group at the start of the batch, at which the command decides, ns of Unix time
	Began   int64    // the process's clock at the start of the batch, ns of Unix time
	Command *spec.Command
	*Parts
	Group    *Group         // which has the command's keys
	Groups   []*Group       // of a command on the keys of all groups, by their numbers less one: nil for those that it leaves out. Empty: there is only one
	Rights   *users.Rights  // of the user that the client is; nil: everything is allowed
	Client   Client         // of the client that sent the command; nil: no client
	Origin   *origin.Origin // of a command without a client; nil: not known
	Table    *engine.Engine // of a read after READONLY; else nil
	Place    engine.Place   // where the engine found the key; zero if it was not asked
	Prepared Prepared       // what Row.Prepare has returned
	Step     *Txn           // of EXEC, a script or the command itself; nil: the command runs in none
	// Latency counts how long the command takes, beside the counters of all commands; nil: nothing does.
	Latency *stats.Latency
	Holds   int64 // bytes that the handler holds between two steps
	Most    int64 // the most bytes of the reply; 0: as the settings say
	Lane    int   // the number of the client's counters; 0 for no client
	Ran     int   // decisions, or work that takes as long, since the last look at the clock
}

// Parts are the parts of the server that handlers use.
type Parts struct {
	Settings  *config.Settings
	Decisions *decisionlog.Log            // nil: decisions are not logged
	Denials   atomic.Pointer[denials.Log] // nil: denials are not kept
	Zones     limit.Zones                 // the time zones that limits have named
	Plans     sync.Pool                   // of package limits: room for the plans of commands
	Errors    stats.Errors                // counts errors by their prefix, for INFO errorstats
	Clustered bool                        // other nodes have the state, too
	GroupOf   func(key []byte) *Group     // returns the group that has a key; nil: there is only one
	// Look has all groups decide on what the command looks at, and then calls then, with the text of the error or "", perhaps in a later turn. nil: there
	// is only one group.
	Look func(c *Call, r *engine.Together, then func(text string))
}

// Client is what a handler may ask of the session of the client that sent the command.
type Client interface {
	// Steps runs a command in steps: see Call.InSteps.
	Steps(lasting func(), step func() (done bool))
	// Background runs work in its own goroutine and parks the session until work returns. It then calls reply with the
	// error.
	Background(work func() error, reply func(err error))
	// KnowsClusters notes that the client knows clusters: from now on it gets -MOVED when another node leads.
	KnowsClusters()
	// ReadsHere sets whether a node that does not lead may serve the client's reads from its own table.
	ReadsHere(on bool)
	// OutputLimit returns the most bytes that the client's unsent replies may have.
	OutputLimit() int64
	// Origin returns who the client is, and where.
	Origin() *origin.Origin
}

// From returns who has sent the command, and from where.
func (c *Call) From() *origin.Origin {
	switch {
	case c.Client != nil:
		return c.Client.Origin()
	case c.Origin != nil:
		return c.Origin
	}
	return &origin.Origin{User: origin.DefaultUser, Addr: "?"}
}

// Deny keeps the denial of a request on a key, for RL.DENIALS. of has what the decision does not say: the limit, the cost and the rule.
func (c *Call) Deny(key []byte, d *limit.Decision, of *denials.Denial) {
	to := c.Denials.Load()
	if to == nil {
		return
	}
	if why := denials.ReasonOf(of.Cost, d); why == denials.Blocked || why == denials.TooMuch || of.Why == denials.UsedUp {
		of.Why = why
	}
	of.At, of.Left, of.Wait, of.From = c.Now, d.Remaining, d.Wait, c.From()
	to.Add(key, c.States().Shown(key), of)
}

// ArgSize is roughly the memory for an argument that is kept, beside its bytes.
const ArgSize = 24

// UserName returns the name of the user that the client is.
func (c *Call) UserName() string {
	if c.Rights == nil {
		return users.Default
	}
	return c.Rights.Name
}

// Hidden reports whether the client may not be shown a key.
func (c *Call) Hidden(key []byte) bool { return c.Rights != nil && !c.Rights.MayRead(key) }

// HiddenCut reports whether the client may not be shown a long key of which only the beginning is known.
func (c *Call) HiddenCut(begin []byte) bool { return c.Rights != nil && !c.Rights.MayReadCut(begin) }

// HiddenNamespace reports whether the client may not be shown what there is of a namespace of rules.
func (c *Call) HiddenNamespace(name string) bool {
	return c.Rights != nil && !c.Rights.MayCheck([]byte(name), spec.Reads)
}

// CostToHide returns about how long Hidden takes for a key of n bytes, as glob.Pattern.Cost counts.
func (c *Call) CostToHide(n int) int {
	if c.Rights == nil || c.Rights.ReadsAll() {
		return 0
	}
	return 1 + c.Rights.Cost(n)
}

// States returns the engine that the call asks.
func (c *Call) States() *engine.Engine {
	if c.Table != nil {
		return c.Table
	}
	return c.Group.Engine.Load()
}

// engineOf returns the engine that has a key, and the time of its group.
func (c *Call) engineOf(key []byte) (e *engine.Engine, now int64) {
	if c.GroupOf == nil || c.Table != nil {
		return c.States(), c.Now
	}
	g := c.GroupOf(key)
	return g.Engine.Load(), g.At(c.Began)
}

// TimeOf returns the time of the group that has a key.
func (c *Call) TimeOf(key []byte) int64 {
	_, now := c.engineOf(key)
	return now
}

// Engines calls do for the engine of each group that the command concerns, and the group's time.
func (c *Call) Engines(do func(e *engine.Engine, now int64)) {
	if len(c.Groups) == 0 {
		do(c.States(), c.Now)
		return
	}
	for _, g := range c.Groups {
		if g != nil {
			do(g.Engine.Load(), g.At(c.Began))
		}
	}
}

// LookAtClock is after how many decisions a session looks at the clock.
const LookAtClock = 64

// failWork is how many decisions take as long as one error, which may suggest what was meant.
const failWork = LookAtClock / 4

// Worked notes that the command took the time of n decisions beside its own, so that the clock is read in time.
func (c *Call) Worked(n int64) { c.Ran += int(min(n, LookAtClock)) }

// Reveals reports whether the reply may depend on state, so that it must wait as a decision does. Every reply may, even an error, for
// which a handler may have looked at keys, rules or memory; but not those of commands that have to do with none of these.
func (c *Call) Reveals(cmd *spec.Command) bool {
	return cmd.Flags&(spec.Write|spec.Readonly|spec.Quorum) != 0 && !c.Durable && !(c.Failed && c.Undecided)
}

// Fail replies with an error and marks the command as failed.
func (c *Call) Fail(text string) {
	c.Worked(failWork)
	c.Failed, c.Undecided = true, text == spec.ErrNoLeader || strings.HasPrefix(text, "MOVED ")
	if c.Step != nil {
		c.Step.counts().Error(text)
	} else {
		c.Errors.Count(text)
	}
	c.Out = resp.AppendError(c.Out, text)
}

// replyMost is the most bytes of one reply where client-output-buffer-limit sets no limit.
const replyMost = 512 << 20

// OutputLimit returns the most bytes that the reply may have.
func (c *Call) OutputLimit() int64 {
	most := int64(replyMost)
	if c.Most > 0 {
		most = c.Most
	}
	if c.Client != nil {
		return min(most, c.Client.OutputLimit())
	}
	return min(most, c.Settings.ClientOutputBufferLimit.Get(config.NormalClient).Most())
}

// errLongReply ends a step whose reply has too many bytes.
var errLongReply = errors.New("the reply would be over client-output-buffer-limit or 512 MB")

// TooLong ends the step t if the reply has more than most bytes, and reports whether it did. Few bytes of a query can ask for many
// long values.
func (c *Call) TooLong(t *Txn, most int64) bool {
	if int64(len(c.Out)) <= most {
		return false
	}
	t.End(errLongReply)
	return true
}
