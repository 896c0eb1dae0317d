// Package rulebook has the rules in force, and the commands that decide under them, look at them and change them.
package rulebook

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"limitdb/internal/clock"
	"limitdb/internal/stats"
	"limitdb/rules"
	"limitdb/server/cluster"
	"limitdb/server/handler"
)

// Source is where the rules come from and where they are kept. Any goroutine may call the
// functions, but only one at a time.
type Source struct {
	// Read reads the file with the rules. If it is nil, there is no file, and rules are set by command.
	Read func() ([]byte, error)
	// ReadDomains reads the files of Envoy's rate limit service. It is nil if there are none.
	ReadDomains func() ([]rules.File, error)
	// Keep keeps rules that were set by command, and the secret that is hashed with long identities. It is nil if
	// nothing can be kept. It returns cluster.ErrNotLeading, and keeps nothing, on a node of a cluster that does not lead.
	Keep func(text []byte, secret [16]byte) error
	// SecretFollows says that other nodes have keys of the same callers, so that all must hash long identities with the same secret. Until SetSecret
	// says which, no command makes such keys.
	SecretFollows bool
}

// Options are what a Book needs.
type Options struct {
	Source      Source
	Parts       *handler.Parts
	Replication *cluster.Replication // nil: the server stands alone
	Clock       clock.Clock
	Log         *slog.Logger
	// Lanes is the number of lanes of a rule's counters. Calls with different lanes rarely count in the same cache line.
	Lanes int
	// Changed is called when other rules have come into force.
	Changed func()
}

// Book holds the rules in force. Any goroutine may call its methods.
type Book struct {
	Options
	force   atomic.Pointer[inForce] // never nil
	secret  secret                  // hashed with long identities
	pool    sync.Pool               // of *check
	byTrees sync.Pool               // of *byTree
	envoy   envoyCounts

	working  atomic.Int32                   // commands that change the rules or read their file, or wait for that
	mu       sync.Mutex                     // held while the rules change
	counters map[string]*stats.RuleCounters // by Rule.ID
	windows  map[string]*stats.RuleWindow   // by Rule.ID, of the first maxWindows rules
	tallies  map[string]tally               // by namespace
	problem  atomic.Pointer[string]         // why the last change failed; nil: it did not
	trees    trees
	changes  atomic.Uint64
	failures atomic.Uint64
	looked   int64 // the last minute of Look, which alone uses it
}

// inForce is a set of rules with their counters. A check uses one from its beginning to its end.
type inForce struct {
	set      *rules.Set
	counters []*stats.RuleCounters // by Rule.Index
	windows  []*stats.RuleWindow   // by Rule.Index, of the first maxWindows
	tallies  []tally               // by Namespace.Index, of the first maxTallies
	since    int64                 // when they came into force, ns of Unix time
	free     *stats.RuleCounters   // the book's
}

// tally has the figures of the checks in a namespace.
type tally struct {
	took     *stats.Latency
	outcomes *stats.RuleCounters // RuleAllowed and RuleLimited
}

// maxTallies is how many namespaces have figures of their checks. A file may have more namespaces than a Prometheus
// should have histograms.
const maxTallies = 100

// maxWindows is how many rules have figures of the last minutes and hours: 2 kB each.
const maxWindows = 1000

// New returns a Book without rules.
func New(o Options) *Book {
	b := &Book{Options: o, counters: map[string]*stats.RuleCounters{}, windows: map[string]*stats.RuleWindow{}, tallies: map[string]tally{}}
	rand.Read(b.secret.drawn[:])
	if !o.Source.SecretFollows {
		b.secret.set.Store(&b.secret.drawn)
	}
	set, err := rules.Parse([]byte(rules.Empty), nil)
	if err != nil {
		panic(err) // a constant
	}
	now := o.Clock.Now()
	b.force.Store(&inForce{set: set, since: now, free: stats.NewRuleCounters(b.Lanes, now)})
	return b
}

// ErrFromFile refuses to change by command what a file says.
var ErrFromFile = errors.New("the rules come from rules-file: change the file, which is read when it changes, at SIGHUP and by RL.RULES RELOAD")

// errNoFile refuses RELOAD.
var errNoFile = errors.New("there is no rules-file and no envoy-rules-dir: use RL.RULES LOAD or SET")

// Load puts the rules of a text in force, and returns what has changed. If the text has a mistake, the old
// rules stay; the error is a rules.Errors. Rules that are unchanged, and those of which only the limit has
// changed, keep their callers' state and their counters.
func (b *Book) Load(text []byte) (rules.Changes, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.load(text)
}

// Sum returns a checksum of what the rules in force mean.
func (b *Book) Sum() [sha256.Size]byte { return b.force.Load().set.Sum() }

// load is Load with the lock held.
func (b *Book) load(text []byte) (rules.Changes, error) {
	set, err := rules.Parse(text, &b.Parts.Zones)
	if err != nil {
		b.note(err)
		return rules.Changes{}, err
	}
	return b.enforce(set), nil
}

// enforce puts rules in force, and returns what has changed. The lock is held.
func (b *Book) enforce(set *rules.Set) rules.Changes {
	old := b.force.Load()
	next := &inForce{set: set, since: b.Clock.Now(), free: old.free, counters: make([]*stats.RuleCounters, len(set.Rules()))}
	there := make(map[string]bool, len(set.Rules()))
	windows := map[string]*stats.RuleWindow{}
	for i, r := range set.Rules() {
		id := r.ID()
		there[id] = true
		if b.counters[id] == nil {
			b.counters[id] = stats.NewRuleCounters(b.Lanes, next.since)
		}
		next.counters[i] = b.counters[id]
		if i < maxWindows {
			w := b.windows[id]
			if w == nil {
				w = stats.NewRuleWindow(next.since, next.counters[i].Sum())
			}
			windows[id], next.windows = w, append(next.windows, w)
		}
	}
	b.windows = windows
	maps.DeleteFunc(b.counters, func(id string, _ *stats.RuleCounters) bool { return !there[id] })
	tallies := map[string]tally{}
	for _, ns := range set.Namespaces()[:min(len(set.Namespaces()), maxTallies)] {
		t, ok := b.tallies[ns.Name()]
		if !ok {
			t = tally{stats.NewLatency(b.Lanes), stats.NewRuleCounters(b.Lanes, next.since)}
		}
		tallies[ns.Name()], next.tallies = t, append(next.tallies, t)
	}
	b.tallies = tallies
	b.countTrees(set, b.trees.domains.Load())
	b.force.Store(next)
	b.changes.Add(1)
	b.problem.Store(nil)
	b.Changed()
	changes := rules.Diff(old.set, set)
	b.Log.Info("the rules are loaded", "rules", len(set.Rules()), "added", named(changes.Added), "changed", named(changes.Changed),
		"removed", named(changes.Removed), "restarted", named(changes.Restarted), "same", changes.Same)
	b.warn(set.Notes())
	return changes
}

// maxNamed is how many names of rules a line of the log has.
const maxNamed = 10

// named lists the names of rules for the log.
func named(names []string) []string {
	if more := len(names) - maxNamed; more > 0 {
		names = append(slices.Clone(names[:maxNamed]), fmt.Sprint("and ", more, " more"))
	}
	return names
}

// note remembers why a change of the rules has failed.
func (b *Book) note(err error) { b.remember(&b.problem, err) }

// remember remembers why a change has failed.
func (b *Book) remember(problem *atomic.Pointer[string], err error) {
	text := err.Error()
	problem.Store(&text)
	b.failures.Add(1)
}

// Reload reads the rules file and the files of Envoy's rate limit service again. If one fails, the old rules that it has had
// stay in force.
func (b *Book) Reload() (rules.Changes, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Source.Read == nil && b.Source.ReadDomains == nil {
		return rules.Changes{}, errNoFile
	}
	changes, failed := rules.Changes{}, error(nil)
	if b.Source.Read != nil {
		changes, failed = b.reloadFile()
	}
	if b.Source.ReadDomains != nil {
		of, err := b.reloadDomains()
		changes.Add(&of)
		failed = cmp.Or(failed, err)
	}
	return changes, failed
}

// ReloadFile reads the rules file again.
func (b *Book) ReloadFile() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.reloadFile()
	return err
}

// reloadFile is ReloadFile with the lock held.
func (b *Book) reloadFile() (rules.Changes, error) {
	text, err := b.Source.Read()
	if err != nil {
		b.note(err)
		return rules.Changes{}, fmt.Errorf("reading rules-file: %w", err)
	}
	return b.load(text)
}

// edit changes the rules by command. by returns the new text of the file. Without a rules file the
// new rules are kept with the data. With one, only an edit that is transient is allowed: it lasts until
// the file is read again.
func (b *Book) edit(transient bool, by func(*rules.Set) ([]byte, error)) (rules.Changes, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	src := b.Source
	if src.Read != nil && !transient {
		return rules.Changes{}, ErrFromFile
	}
	text, err := by(b.force.Load().set)
	if err != nil {
		return rules.Changes{}, err
	}
	if src.Read != nil || src.Keep == nil {
		return b.load(text)
	}
	set, err := rules.Parse(text, &b.Parts.Zones)
	if err != nil {
		b.note(err)
		return rules.Changes{}, err
	}
	// Keep comes first, so that no decision is durable before the rules that it follows.
	secret, _ := b.Secret()
	if err := src.Keep(text, secret); err != nil {
		return rules.Changes{}, err
	}
	return b.enforce(set), nil
}

// SetMode gives a rule a mode. The errors are rules.ErrNoRule, a rules.Errors, and those of Source.Keep.
func (b *Book) SetMode(namespace, name string, mode rules.Mode) error {
	_, err := b.edit(true, func(s *rules.Set) ([]byte, error) { return s.SetMode(namespace, name, mode) })
	return err
}

// Set returns the rules in force.
func (b *Book) Set() *rules.Set { return b.force.Load().set }

// Figures are the counters of one rule.
type Figures struct {
	Rule   *rules.Rule
	Counts stats.Rule
}

// Checks are the figures of the checks in a namespace.
type Checks struct {
	Namespace string
	// Allowed counts the checks that took something, or found no limit, and Limited those that a rule denied.
	Allowed, Limited uint64
	// Took is how long checks took. Waiting is not included, nor are checks in transactions and scripts.
	Took stats.Histogram
}

// Free returns how many checks found no limit. No engine has decided them.
func (b *Book) Free() uint64 { return b.force.Load().free.Sum().Allowed }

// Shadowed returns how many checks were allowed that a rule in shadow mode or a candidate would have limited.
func (b *Book) Shadowed() uint64 { return b.force.Load().free.Sum().ShadowLimited }

// Checks returns the figures of the first 100 namespaces since the start of the process, or since the namespace was there.
func (b *Book) Checks() []Checks { return b.force.Load().checks() }

func (f *inForce) checks() []Checks {
	all := make([]Checks, len(f.tallies))
	for i, ns := range f.set.Namespaces()[:len(all)] {
		sum := f.tallies[i].outcomes.Sum()
		all[i] = Checks{ns.Name(), sum.Allowed, sum.Limited, f.tallies[i].took.Sum()}
	}
	return all
}

// Status says where the rules in force come from, for INFO and metrics.
type Status struct {
	// Since is when these rules came into force, in ns of Unix time.
	Since int64
	// FromFile reports whether they come from rules-file.
	FromFile bool
	// Loaded and Failed count changes that came into force and changes that had a mistake.
	Loaded, Failed uint64
	// Problem says why the last change did not come into force; "" if it did.
	Problem string
}

// Status returns where the rules in force come from.
func (b *Book) Status() Status {
	f := b.force.Load()
	st := Status{Since: f.since, FromFile: b.Source.Read != nil, Loaded: b.changes.Load(), Failed: b.failures.Load()}
	if p := cmp.Or(b.problem.Load(), b.trees.problem.Load()); p != nil {
		st.Problem = *p
	}
	return st
}

// Figures returns the rules in force and their counters, which count from the start of the process, or from when
// the rule first came into force.
func (b *Book) Figures() []Figures {
	f := b.force.Load()
	all := make([]Figures, len(f.counters))
	for i, r := range f.set.Rules() {
		all[i] = Figures{r, f.counters[i].Sum()}
	}
	return all
}

// Look notes what the rules have counted in the minute that has ended. Call it several times a minute, from one goroutine.
func (b *Book) Look(now int64) {
	if now/minute == b.looked {
		return
	}
	b.looked = now / minute
	f := b.force.Load()
	for i, w := range f.windows {
		w.Look(now, f.counters[i].Sum())
	}
	for _, t := range b.treeFigures() {
		for i, w := range t.windows {
			w.Look(now, t.counters[i].Sum())
		}
	}
}

const minute = 60_000_000_000 // ns

// Totals returns the counters of the rules in force by Rule.ID, and of the limits of trees by an ID of theirs. It leaves out those that have counted nothing.
func (b *Book) Totals() map[string]stats.RuleTotals {
	f, all := b.force.Load(), map[string]stats.RuleTotals{}
	for i, r := range f.set.Rules() {
		if t := f.counters[i].Totals(); t.Rule != (stats.Rule{}) {
			all[r.ID()] = t
		}
	}
	for _, tree := range b.treeFigures() {
		for i := range tree.windows { // a tree may have so many limits that there would be no room for the rules
			if t := tree.counters[i].Totals(); t.Rule != (stats.Rule{}) {
				all[limitID(tree.domain, i)] = t
			}
		}
	}
	return all
}

// Continue makes the rules in force continue the totals that Totals has returned, before a restart or on another node.
func (b *Book) Continue(totals map[string]stats.RuleTotals) {
	f := b.force.Load()
	for i, r := range f.set.Rules() {
		if t, ok := totals[r.ID()]; ok {
			f.counters[i].Continue(t)
		}
	}
	for _, tree := range b.treeFigures() {
		for i, c := range tree.counters {
			if t, ok := totals[limitID(tree.domain, i)]; ok {
				c.Continue(t)
			}
		}
	}
}

// SetSecret sets what is hashed with identities that are too long for a key. It must be the same wherever
// the state is read again. Call it before the first check on that state.
func (b *Book) SetSecret(secret [16]byte) { b.secret.set.Store(&secret) }

// Secret returns what is hashed with long identities. While that is to follow, known is false, and the secret is what it may be.
func (b *Book) Secret() (secret [16]byte, known bool) {
	if set := b.secret.set.Load(); set != nil {
		return *set, true
	}
	return b.secret.drawn, false
}
