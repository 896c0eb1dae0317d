package serve

import (
	"time"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/observe"
)

// snapshot gathers the figures for the HTTP port.
func (p *process) snapshot() observe.Snapshot {
	t := p.group.Stats()
	s := observe.Snapshot{
		Server:      p.server.Figures(),
		ClockOffset: time.Duration(p.reloads.clockOffset.Load()),
		Engine:      p.states().Stats(), MaxMemory: p.set.MaxMemory.Get(),
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
		for _, k := range p.states().Top(p.server.Group().Now(), engine.ByLimited, most, nil) {
			s.TopLimited = append(s.TopLimited, stats.Count{Name: string(k.Key), N: uint64(max(0, k.Count))})
		}
	}
	return s
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
