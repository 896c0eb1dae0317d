package observe

import "github.com/prometheus/client_golang/prometheus"

// Group describes a group of keys of which this node has a replica, in a cluster of several. Group 0 has no keys.
type Group struct {
	Number                         int
	Leads, LeaderKnown             bool   // this node decides for it, or knows which one does
	Term, Last, Committed, Applied uint64 // Raft's term, and indexes of the log
	Keys, Bytes                    int64
	Decisions, Expired, Evicted    uint64 // of this node, since it started
}

// groupMetric is a metric of each group.
type groupMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Group) float64
}

// groupMetrics returns the metrics of groups. There are at most 65 groups.
func groupMetrics() []groupMetric {
	gauge := func(name, help string, value func(*Group) float64) groupMetric {
		return groupMetric{describe(name, help+" Only with several groups, for those of which this node has a replica.", "group"), prometheus.GaugeValue, value}
	}
	counter := func(name, help string, value func(*Group) float64) groupMetric {
		m := gauge(name, help, value)
		m.kind = prometheus.CounterValue
		return m
	}
	return []groupMetric{
		gauge("group_leading", "Whether this node decides for the group: 1 or 0.", func(g *Group) float64 { return oneIf(g.Leads) }),
		gauge("group_leader_known", "Whether this node knows a node that decides for the group: 1 or 0.", func(g *Group) float64 { return oneIf(g.LeaderKnown) }),
		gauge("group_term", "Raft's term in the group.", func(g *Group) float64 { return float64(g.Term) }),
		gauge("group_last_index", "Index of the last entry of this node's log of the group.", func(g *Group) float64 { return float64(g.Last) }),
		gauge("group_commit_index", "Index of the last entry of the group that this node knows to be on a majority of its voters.", func(g *Group) float64 { return float64(g.Committed) }),
		gauge("group_applied_index", "Index of the last entry of the group that this node has applied.", func(g *Group) float64 { return float64(g.Applied) }),
		gauge("group_keys", "Keys of the group on this node.", func(g *Group) float64 { return float64(g.Keys) }),
		gauge("group_bytes", "Bytes that the table of the group uses on this node.", func(g *Group) float64 { return float64(g.Bytes) }),
		counter("group_decisions_total", "Decisions of this node for keys of the group.", func(g *Group) float64 { return float64(g.Decisions) }),
		counter("group_keys_expired_total", "Keys of the group removed because they had expired.", func(g *Group) float64 { return float64(g.Expired) }),
		counter("group_keys_evicted_total", "Keys of the group removed to keep its table within its share of maxmemory.", func(g *Group) float64 { return float64(g.Evicted) }),
	}
}
