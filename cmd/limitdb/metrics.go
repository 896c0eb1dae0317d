package main

import (
	"time"

	"limitdb/observe"
)

// snapshot gathers the numbers that the HTTP port publishes.
func (p *process) snapshot() observe.Snapshot {
	f := p.server.Figures()
	e := p.engine.Stats()
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
		Durability:     p.durable.forMetrics(),
		SlowlogEntries: f.SlowlogEntries,
		SlowCommands:   f.SlowCommands,
	}
	for reason, n := range f.Closed {
		s.Clients.Closed = append(s.Clients.Closed, observe.Count{Name: reason, N: n})
	}
	for _, c := range f.Commands {
		s.Commands = append(s.Commands, observe.Command{
			Name: c.Name, Calls: c.Calls, Errors: c.Errors,
			Latency: observe.Histogram{Buckets: c.Histogram, Sum: c.Nanoseconds},
		})
	}
	return s
}

// forMetrics gathers the numbers about what is kept; nil where nothing is.
func (d *durability) forMetrics() *observe.Durability {
	if d.loading.Load() {
		return &observe.Durability{Loading: true, LastSaveOK: true}
	}
	store := d.store.Load()
	if store == nil {
		return nil
	}
	st := store.Stats()
	return &observe.Durability{
		LogBytes: st.LogBytes, BaseBytes: st.BaseBytes,
		Written: st.BytesWritten, Writes: st.Commits, Syncs: st.Syncs, Failures: st.Failures,
		LastSync: timeOf(st.LastSync), UnsyncedAge: time.Duration(st.UnsyncedAge), Waiting: st.Waiting, Refusing: d.p.server.Refusing(),
		Saving: st.Snapshotting, Saves: st.Snapshots, SaveFailures: st.SnapshotErrors,
		LastSave: timeOf(st.LastSnapshot), LastSaveTook: time.Duration(st.LastSnapshotTook), LastSaveOK: st.LastSnapshotErr == nil,
	}
}

// timeOf is a time in ns of Unix time, the zero time for 0.
func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
