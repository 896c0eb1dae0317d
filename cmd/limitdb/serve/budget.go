package serve

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"limitdb/config"
	"limitdb/engine"
)

// Only the leader keeps to a memory budget: its evictions are in the log, and the other nodes follow. If a follower
// evicted by itself, its state would differ. So the leader's budget is the smallest maxmemory of all voters that
// answer, and a follower that holds more than its own maxmemory only warns.

// budgetChanged passes maxmemory and its policy to the engine.
func (p *process) budgetChanged() error {
	most := p.set.MaxMemory.Get()
	if percent := heapGrowth(os.Getenv, most, p.set.GRPCPort.Get() != 0); percent > 0 {
		debug.SetGCPercent(percent)
	}
	p.setBudget(most)
	return nil
}

// setBudget gives the engine that decides its budget, of at most this many bytes, 0 for any.
func (p *process) setBudget(most int64) {
	if m := p.member; m != nil && m.several != nil {
		m.several.setBudgets()
		return
	} else if m != nil {
		r := m.replica
		if !r.leads.Load() {
			r.states.Load().SetMaxMemory(0, engine.NoEviction)
			return
		}
		if of := r.smallest.Load(); of > 0 && (most == 0 || of < most) {
			most = of
		}
	}
	p.states().SetMaxMemory(most, policyOf(p.set))
}

// policyOf returns what happens when the budget is used up.
func policyOf(set *config.Settings) engine.Policy {
	if set.MaxMemoryPolicy.Get() == "least-debt" {
		return engine.LeastDebt
	}
	return engine.NoEviction
}

// watchBudget keeps the leader's budget the smallest of all, and warns when a follower holds more than its own.
func (m *member) watchBudget(ctx context.Context) {
	p, r := m.p, m.replica
	every(ctx, time.Second, func() {
		smallest := int64(0)
		for _, text := range r.node.Load().VotersSay("maxmemory") {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && (smallest == 0 || n < smallest) {
				smallest = n
			}
		}
		r.smallest.Store(smallest)
		p.setBudget(p.set.MaxMemory.Get()) // always: the node may just have begun, or ended, to lead
		own := p.set.MaxMemory.Get()
		over := own > 0 && r.states.Load().Stats().Bytes > own
		if r.over.Swap(over) != over && over {
			p.log.Warn("this node holds more than its maxmemory, because it holds all keys of the cluster", "maxmemory", own)
		}
	})
}
