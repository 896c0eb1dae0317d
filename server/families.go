package server

import (
	"limitdb/server/audit"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/keys"
	"limitdb/server/limits"
	"limitdb/server/pubsub"
	"limitdb/server/spec"
	"limitdb/server/table"
	"limitdb/server/values"
)

// newCommands builds the table.
func (srv *Server) newCommands() *commands {
	t := new(table.Table)
	all := &commands{Table: t}
	for _, family := range srv.families(t) {
		for _, r := range family {
			c := newCommand(r)
			all.rows = append(all.rows, &c)
			subs := make([]*spec.Command, len(c.subs))
			for i := range c.subs {
				subs[i] = &c.subs[i].Command
				all.rows = append(all.rows, &c.subs[i])
			}
			t.Add(&c.Command, subs)
		}
	}
	for _, c := range all.rows {
		c.audited = audit.Is(c.Full)
	}
	return all
}

// families are the tables of the cmd_*.go files and of the packages below, in the order of the reference.
func (srv *Server) families(t *table.Table) [][]row {
	var all [][]row
	for _, rows := range limits.Families() {
		all = append(all, adapted(rows, (*call).inner))
	}
	all = append(all, adapted(srv.rules.Rows(), (*call).inner), adapted(keys.Rows(), (*call).inner))
	for _, rows := range values.Families() {
		all = append(all, adapted(rows, func(c *call) *values.Call { return &c.Call }))
	}
	return append(all,
		multiRows(),
		scriptRows(),
		connectionRows(),
		clientRows(),
		serverRows(),
		adapted(srv.durable.Rows(srv.started, srv.Snapshot), (*call).inner),
		adapted(srv.opts.Backups.Rows(), (*call).inner),
		configRows(),
		debugRows(),
		adapted(srv.auth.Rows(t.Categories, srv.opts.Replication, srv.opts.Users.Keep != nil), (*call).inner),
		adapted(srv.slowlog.Rows(), (*call).inner),
		adapted(srv.latency.Rows(), (*call).inner),
		adapted(srv.history.Rows(), (*call).inner),
		adapted(srv.memory.Rows(srv.clients), (*call).inner),
		adapted(t.Rows(), (*call).inner),
		adapted(srv.opts.Replication.Rows(func() error { return srv.durable.Snapshot() }), (*call).inner),
		waitRows(),
		adapted(srv.topics.Rows(func(c *handler.Call, do func(*pubsub.Subscriptions), end func()) {
			srv.clients.Walk(c, 1, func(other *clients.Client) {
				if other.SubCount() > 0 {
					do(other.Subs)
				}
			}, end)
		}), (*call).inner),
	)
}

// adapted returns the rows of a package below, whose handlers get a part of the call.
func adapted[C any](rows []handler.Row[C], part func(c *call) *C) []row {
	var out []row
	for _, r := range rows {
		a := row{Command: r.Command, Plan: r.Plan, Rows: adapted(r.Rows, part)}
		if r.Run != nil {
			a.Run = func(c *call) {
				c.Call.Command = &c.cmd.Command
				r.Run(part(c))
			}
		}
		if r.Do != nil {
			a.Do = func(c *call, t *handler.Txn) {
				c.Call.Command = &c.cmd.Command
				r.Do(part(c), t)
			}
		}
		if r.Walk != nil {
			a.Walk = func(c *call, keys handler.Keyspace) {
				c.Call.Command = &c.cmd.Command
				r.Walk(part(c), keys)
			}
		}
		if r.Prepare != nil {
			a.Prepare = func(c *call) (handler.Prepared, string) { return r.Prepare(part(c)) }
		}
		out = append(out, a)
	}
	return out
}
