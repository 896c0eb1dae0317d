package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"limitdb/internal/stats"
	"limitdb/rules"
)

// RuleSource is where the server's rules come from and where they are kept. Any goroutine may call the
// functions, but only one at a time.
type RuleSource struct {
	// Read reads the file with the rules. If it is nil, there is no file, and rules are set by command.
	Read func() ([]byte, error)
	// Keep keeps rules that were set by command, and the secret that is hashed with long identities. It is nil if
	// nothing can be kept. It returns ErrNotLeading, and keeps nothing, on a node of a cluster that does not lead.
	Keep func(text []byte, secret [16]byte) error
}

// ruleBook holds the rules in force.
type ruleBook struct {
	force  atomic.Pointer[rulesInForce] // never nil
	secret atomic.Pointer[[16]byte]     // hashed with long identities
	pool   sync.Pool                    // of *checking

	mu       sync.Mutex // held while the rules change
	counters map[string]*stats.RuleCounters
	problem  atomic.Pointer[string] // why the last change failed; nil: it did not
	changes  atomic.Uint64
	failures atomic.Uint64
}

// rulesInForce is a set of rules with their counters. A check uses one from its beginning to its end.
type rulesInForce struct {
	set      *rules.Set
	counters []*stats.RuleCounters // by Rule.Index
	since    int64                 // when they came into force, ns of Unix time
}

func (b *ruleBook) init(now int64) {
	secret := new([16]byte)
	rand.Read(secret[:])
	b.secret.Store(secret)
	set, err := rules.Parse([]byte(rules.Empty), nil)
	if err != nil {
		panic(err) // a constant
	}
	b.counters = map[string]*stats.RuleCounters{}
	b.force.Store(&rulesInForce{set: set, since: now})
}

// errRulesFromFile refuses to change by command what a file says.
var errRulesFromFile = errors.New("the rules come from rules-file: change the file, which is read when it changes, at SIGHUP and by RL.RULES RELOAD")

// errNoRulesFile refuses RELOAD.
var errNoRulesFile = errors.New("there is no rules-file: use RL.RULES LOAD or SET")

// LoadRules puts the rules of a text in force, and returns what has changed. If the text has a mistake, the old
// rules stay; the error is a rules.Errors. Rules that are unchanged, and those of which only the limit has
// changed, keep their callers' state and their counters.
func (srv *Server) LoadRules(text []byte) (rules.Changes, error) {
	srv.rules.mu.Lock()
	defer srv.rules.mu.Unlock()
	return srv.loadRules(text)
}

// RulesSum returns a checksum of what the rules in force mean.
func (srv *Server) RulesSum() [sha256.Size]byte { return srv.rules.force.Load().set.Sum() }

// loadRules is LoadRules with the lock held.
func (srv *Server) loadRules(text []byte) (rules.Changes, error) {
	set, err := rules.Parse(text, &srv.parts.Zones)
	if err != nil {
		srv.rules.note(err)
		return rules.Changes{}, err
	}
	return srv.enforce(set), nil
}

// enforce puts rules in force, and returns what has changed. The lock is held.
func (srv *Server) enforce(set *rules.Set) rules.Changes {
	b := &srv.rules
	old := b.force.Load()
	next := &rulesInForce{set: set, since: srv.clock.Now(), counters: make([]*stats.RuleCounters, len(set.Rules()))}
	there := make(map[string]bool, len(set.Rules()))
	for i, r := range set.Rules() {
		path := r.Path()
		there[path] = true
		if b.counters[path] == nil {
			b.counters[path] = stats.NewRuleCounters(srv.counts.Stripes())
		}
		next.counters[i] = b.counters[path]
	}
	maps.DeleteFunc(b.counters, func(path string, _ *stats.RuleCounters) bool { return !there[path] })
	b.force.Store(next)
	b.changes.Add(1)
	b.problem.Store(nil)
	srv.rulesChanged()
	changes := rules.Diff(old.set, set)
	srv.log.Info("the rules are loaded", "rules", len(set.Rules()), "added", len(changes.Added), "changed", len(changes.Changed),
		"removed", len(changes.Removed), "same", changes.Same)
	return changes
}

// note remembers why a change of the rules has failed.
func (b *ruleBook) note(err error) {
	text := err.Error()
	b.problem.Store(&text)
	b.failures.Add(1)
}

// ReloadRules reads the rules file again. If that fails, the old rules stay in force.
func (srv *Server) ReloadRules() (rules.Changes, error) {
	srv.rules.mu.Lock()
	defer srv.rules.mu.Unlock()
	src := srv.opts.Rules
	if src.Read == nil {
		return rules.Changes{}, errNoRulesFile
	}
	text, err := src.Read()
	if err != nil {
		srv.rules.note(err)
		return rules.Changes{}, fmt.Errorf("reading rules-file: %w", err)
	}
	return srv.loadRules(text)
}

// EditRules changes the rules by command. edit returns the new text of the file. Without a rules file the
// new rules are kept with the data. With one, only an edit that is transient is allowed: it lasts until
// the file is read again.
func (srv *Server) EditRules(transient bool, edit func(*rules.Set) ([]byte, error)) (rules.Changes, error) {
	srv.rules.mu.Lock()
	defer srv.rules.mu.Unlock()
	src := srv.opts.Rules
	if src.Read != nil && !transient {
		return rules.Changes{}, errRulesFromFile
	}
	text, err := edit(srv.rules.force.Load().set)
	if err != nil {
		return rules.Changes{}, err
	}
	if src.Read != nil || src.Keep == nil {
		return srv.loadRules(text)
	}
	set, err := rules.Parse(text, &srv.parts.Zones)
	if err != nil {
		srv.rules.note(err)
		return rules.Changes{}, err
	}
	// Keep comes first, so that no decision is durable before the rules that it follows.
	if err := src.Keep(text, srv.RulesSecret()); err != nil {
		return rules.Changes{}, err
	}
	return srv.enforce(set), nil
}

// SetRuleMode gives a rule a mode, and returns once the change is durable. If ctx ends before that, it returns ctx's
// error, and the change is made. Other errors are rules.ErrNoRule, rules.ErrAliased and ErrNotLeading.
func (srv *Server) SetRuleMode(ctx context.Context, namespace, name string, mode rules.Mode) error {
	turn, following := srv.durable.turn()
	if following != 0 {
		return ErrNotLeading
	}
	if err := srv.setRuleMode(namespace, name, mode); err != nil {
		return err
	}
	known, err := srv.settle(ctx, turn)
	if !known && err == nil {
		return errors.New(errUnknownOutcome)
	}
	return err
}

func (srv *Server) setRuleMode(namespace, name string, mode rules.Mode) error {
	_, err := srv.EditRules(true, func(s *rules.Set) ([]byte, error) { return s.SetMode(namespace, name, mode) })
	return err
}

// Rules returns the rules in force.
func (srv *Server) Rules() *rules.Set { return srv.rules.force.Load().set }

// RuleFigures are the counters of one rule.
type RuleFigures struct {
	Rule   *rules.Rule
	Counts stats.Rule
}

// RulesStatus says where the rules in force come from, for INFO and metrics.
type RulesStatus struct {
	// Since is when these rules came into force, in ns of Unix time.
	Since int64
	// FromFile reports whether they come from rules-file.
	FromFile bool
	// Loaded and Failed count changes that came into force and changes that had a mistake.
	Loaded, Failed uint64
	// Problem says why the last change did not come into force; "" if it did.
	Problem string
}

// RulesStatus returns where the rules in force come from.
func (srv *Server) RulesStatus() RulesStatus {
	b := &srv.rules
	f := b.force.Load()
	st := RulesStatus{Since: f.since, FromFile: srv.opts.Rules.Read != nil, Loaded: b.changes.Load(), Failed: b.failures.Load()}
	if p := b.problem.Load(); p != nil {
		st.Problem = *p
	}
	return st
}

// RuleFigures returns the rules in force and their counters, which count from the start of the process, or from when
// the rule first came into force.
func (srv *Server) RuleFigures() []RuleFigures {
	f := srv.rules.force.Load()
	all := make([]RuleFigures, len(f.counters))
	for i, r := range f.set.Rules() {
		all[i] = RuleFigures{r, f.counters[i].Sum()}
	}
	return all
}

// SetRulesSecret sets what is hashed with identities that are too long for a key. It must be the same wherever
// the state is read again. Call it before the first check on that state.
func (srv *Server) SetRulesSecret(secret [16]byte) { srv.rules.secret.Store(&secret) }

// RulesSecret returns what is hashed with long identities.
func (srv *Server) RulesSecret() [16]byte { return *srv.rules.secret.Load() }
