package server

import (
	"limitdb/server/cluster"
	"limitdb/server/handler"
	"limitdb/server/keys"
	"limitdb/server/limits"
	"limitdb/server/rulebook"
	"limitdb/server/table"
	"limitdb/server/values"
)

// families are the tables of the cmd_*.go files and of the packages below, in the order of the reference.
func families(t *table.Table, book *rulebook.Book, r *cluster.Replication, snapshot func() error) [][]command {
	var all [][]command
	for _, rows := range limits.Families() {
		all = append(all, adapted(rows, (*call).inner))
	}
	all = append(all, adapted(book.Rows(), (*call).inner), adapted(keys.Rows(), (*call).inner))
	for _, rows := range values.Families() {
		all = append(all, adapted(rows, func(c *call) *values.Call { return &c.Call }))
	}
	return append(all,
		multiCommands(),
		scriptCommands(),
		connectionCommands(),
		clientCommands(),
		serverCommands(),
		saveCommands(),
		configCommands(),
		debugCommands(),
		aclCommands(),
		slowlogCommands(),
		latencyCommands(),
		memoryCommands(),
		adapted(t.Rows(), (*call).inner),
		adapted(r.Rows(snapshot), (*call).inner),
		waitCommands(),
		pubsubCommands(),
	)
}

// adapted returns the commands of a package below, whose handlers get a part of the call.
func adapted[C any](rows []handler.Row[C], part func(c *call) *C) []command {
	out := make([]command, len(rows))
	for i, r := range rows {
		c := &out[i]
		c.Command, c.plan, c.subs = r.Command, r.Plan, adapted(r.Rows, part)
		if r.Atomic != nil {
			c.run, c.atomic = (*call).atomically, func(c *call, t *handler.Txn) {
				c.Call.Command = &c.cmd.Command
				r.Atomic(part(c), t)
			}
		}
		if r.Resolve != nil {
			c.resolves = func(c *call) (any, [][]byte) { return r.Resolve(part(c)) }
		}
		switch {
		case r.Run != nil:
			c.run = func(c *call) {
				c.Call.Command = &c.cmd.Command
				r.Run(part(c))
			}
		case r.Atomic == nil && r.Rows == nil:
			c.run = (*call).help
		}
	}
	return out
}
