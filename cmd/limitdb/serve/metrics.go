package serve

import (
	"cmp"
	"slices"
	"time"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/observe"
	"limitdb/server/group"
)

// snapshot gathers the figures for the HTTP port.
func (p *process) snapshot() observe.Snapshot {
	t := p.group.Stats()
	s := observe.Snapshot{
		Server:      p.server.Figures(),
		ClockOffset: time.Duration(p.reloads.clockOffset.Load()),
		Engine:      tablesOf(p).figures(), MaxMemory: p.set.MaxMemory.Get(),
		Config: observe.Config{
			Reloads: p.reloads.done.Load(), ReloadFailures: p.reloads.failed.Load(),
			LastReloadOK: !p.reloads.lastFailed.Load() && !p.reloads.certificatesFailed.Load(), LastReload: time.Unix(0, p.reloads.at.Load()),
		},
		Durability: p.durable.stats(),
		Backups:    p.backups.figures(), Certificates: p.certificates(),
		Refusing: p.server.Refusing(),
	}
	if p.member != nil {
		s.Replication = p.member.replica.status()
	}
	s.Groups = p.member.groups()
	s.Clients.Rejected = append(s.Clients.Rejected, stats.Count{Name: "descriptors", N: uint64(t.Refused)})
	s.Clients.AcceptErrors = uint64(t.AcceptErrors)
	s.Engine.Allowed += p.server.Rules().Free()
	s.ShadowLimited = p.server.Rules().Shadowed()
	s.RulesProblem = p.server.Rules().Status().Problem != ""
	for _, r := range p.server.Rules().Figures() {
		s.Rules = append(s.Rules, observe.Rule{Namespace: r.Rule.Namespace, Name: r.Rule.Name, Mode: r.Rule.Mode.String(), Rule: r.Counts})
	}
	for _, c := range p.server.Rules().Checks() {
		s.Checks = append(s.Checks, observe.Checks{Namespace: c.Namespace, Allowed: c.Allowed, Limited: c.Limited, Latency: c.Took})
	}
	if p.audit != nil {
		s.AuditLog = true
		s.ChangesLogged, s.ChangesMissing = p.audit.Counts()
	}
	s.EnvoyLimits = p.server.Rules().EnvoyLimits()
	if p.decisionLog != nil {
		s.DecisionLog = true
		s.DecisionsLogged, s.DecisionsDropped = p.decisionLog.Counts()
	}
	if most := int(p.set.MetricsTopKeys.Get()); most > 0 {
		s.TopLimited = tablesOf(p).topLimited(most, p.server.Groups())
	}
	return s
}

// tables are the tables of this node, by group; or that of the only group.
type tables []*engine.Engine

func tablesOf(p *process) (all tables) {
	if p.member == nil || p.member.several == nil {
		return tables{p.states()}
	}
	for _, r := range p.member.several.replicas {
		all = append(all, r.states.Load())
	}
	return all
}

// figures returns the figures of all.
func (t tables) figures() (sum engine.Stats) {
	const shards = 64
	for _, e := range t {
		for next := e.AddStats(&sum, 0, shards); next > 0; {
			next = e.AddStats(&sum, next, shards)
		}
	}
	return sum
}

// topLimited returns the keys that are denied most often, at most so many.
func (t tables) topLimited(most int, groups []*group.Group) (all []stats.Count) {
	for i, e := range t {
		for _, k := range e.Top(groups[i].Now(), engine.ByLimited, most, nil) {
			all = append(all, stats.Count{Name: string(k.Key), N: uint64(max(0, k.Count))})
		}
	}
	slices.SortStableFunc(all, func(a, b stats.Count) int { return cmp.Compare(b.N, a.N) })
	return all[:min(len(all), most)]
}

// groups returns the groups of which the node has a replica, if there are several.
func (m *member) groups() (all []observe.Group) {
	if m == nil || m.several == nil {
		return nil
	}
	for g, r := range m.several.replicas {
		node := r.node.Load()
		if node == nil {
			continue
		}
		is, has := r.status(), r.states.Load().Stats()
		all = append(all, observe.Group{
			Number: g, Leads: is.Leads, LeaderKnown: is.Serves(), Term: is.Term, Last: is.Last, Committed: is.Committed, Applied: is.Applied,
			Keys: has.Keys, Bytes: has.Bytes, Decisions: has.Allowed + has.Limited, Expired: has.Expired, Evicted: has.Evicted,
		})
	}
	return all
}

// certificates returns how long the certificates in use are still valid.
func (p *process) certificates() (all []observe.Certificate) {
	now := time.Unix(0, p.clock.Wall())
	if p.tls != nil {
		all = append(all, observe.Certificate{Directive: "tls-cert-file", Left: p.tls.Expires().Sub(now)})
	}
	if p.member != nil && p.member.certs != nil {
		own, authority := p.member.certs.Expires()
		all = append(all, observe.Certificate{Directive: "raft-tls-cert-file", Left: own.Sub(now)}, observe.Certificate{Directive: "raft-tls-ca-cert-file", Left: authority.Sub(now)})
	}
	return all
}
