package serve

import (
	"time"

	"limitdb/engine"
	"limitdb/observe"
)

// snapshot gathers the figures for the HTTP port.
func (p *process) snapshot() observe.Snapshot {
	f := p.server.Figures()
	e := p.states().Stats()
	t := p.group.Stats()
	s := observe.Snapshot{
		Version:     f.Version,
		Uptime:      time.Duration(f.Uptime),
		ClockOffset: time.Duration(p.reloads.clockOffset.Load()),
		Clients: observe.Clients{
			Connected: f.Clients, Max: f.MaxClients,
			Blocked: f.Parked, Paused: f.Paused, Monitors: f.Monitors,
			BufferBytes: f.BufferBytes, BufferBytesMax: f.BufferBytesMax,
			Accepted: f.Accepted,
			Rejected: []observe.Count{
				{Name: "maxclients", N: f.RejectedMax}, {Name: "protected-mode", N: f.RejectedMode}, {Name: "descriptors", N: uint64(t.Refused)},
			},
			AcceptErrors: uint64(t.AcceptErrors),
			AuthFailures: f.AuthFailures, ProtocolErrors: f.ProtocolErrors, Panics: f.Panics,
		},
		Traffic: observe.Traffic{BytesIn: f.BytesIn, BytesOut: f.BytesOut},
		Engine: observe.Engine{
			Allowed: e.Allowed, Limited: e.Limited, Peeked: e.Peeked, Refunded: e.Refunded,
			Keys: e.Keys, Bytes: e.Bytes, BytesMax: p.set.MaxMemory.Get(), Expired: e.Expired, Evicted: e.Evicted,
			Waiting: e.Waiting, WaitingKeys: e.WaitingKeys, Waited: e.Waited,
		},
		Config: observe.Config{
			Reloads: p.reloads.done.Load(), ReloadFailures: p.reloads.failed.Load(),
			LastReloadOK: !p.reloads.lastFailed.Load(), LastReload: time.Unix(0, p.reloads.at.Load()),
		},
		Commands:       f.Commands,
		Durability:     p.durable.stats(),
		Replication:    p.replica.status(),
		Refusing:       p.server.Refusing(),
		SlowlogEntries: f.SlowlogEntries,
		SlowCommands:   f.SlowCommands,
	}
	for reason, n := range f.Closed {
		s.Clients.Closed = append(s.Clients.Closed, observe.Count{Name: reason, N: n})
	}
	s.RulesProblem = p.server.Rules().Status().Problem != ""
	for _, r := range p.server.Rules().Figures() {
		s.Rules = append(s.Rules, observe.Rule{Namespace: r.Rule.Namespace, Name: r.Rule.Name, Mode: r.Rule.Mode.String(), Rule: r.Counts})
	}
	if p.decisionLog != nil {
		s.DecisionLog = true
		s.DecisionsLogged, s.DecisionsDropped = p.decisionLog.Counts()
	}
	if most := int(p.set.MetricsTopKeys.Get()); most > 0 {
		for _, k := range p.states().Top(p.clock.Now(), engine.ByLimited, most, nil) {
			s.TopLimited = append(s.TopLimited, observe.Count{Name: string(k.Key), N: uint64(max(0, k.Count))})
		}
	}
	return s
}
