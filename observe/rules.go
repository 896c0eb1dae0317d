package observe

import "github.com/prometheus/client_golang/prometheus"

// maxRules is how many rules have metrics of their own. A file may have more rules than a Prometheus should
// have series.
const maxRules = 1000

// ruleMetrics are the metrics of the rules in force. Their names come from the operator's file, not from
// callers.
type ruleMetrics struct {
	count, successful, decisions, near, blocks, blocked, enforced, checks, duration *prometheus.Desc
}

func describeRules() ruleMetrics {
	return ruleMetrics{
		count:      describe("rules", "Rules in force."),
		successful: describe("rules_last_change_successful", "Whether the last change of the rules came into force: 1 or 0."),
		decisions:  describe("rule_decisions_total", "Decisions of each rule, by result; shadow_limited and candidate_limited were not enforced. The first 1000 rules have this.", "namespace", "rule", "result"),
		near:       describe("rule_near_limit_total", "Decisions that were allowed and left a fifth of the rule's limit or less.", "namespace", "rule"),
		blocks:     describe("rule_blocks_total", "Blocks that a denial under the rule began. A rule has this from its first block on.", "namespace", "rule"),
		blocked:    describe("rule_blocked_total", "Requests that were denied because the rule had blocked their caller. A rule has this from its first block on.", "namespace", "rule"),
		checks:     describe("checks_total", "Requests of RL.CHECK in each namespace, by result; limited are those that a rule denied. The first 100 namespaces have this.", "namespace", "result"),
		duration:   describe("check_duration_seconds", "Time that RL.CHECK took in each namespace, without the network and without waiting. The first 100 namespaces have this.", "namespace"),
		enforced:   describe("rule_enforced", "Whether the rule is enforced: 1, or 0 in shadow mode and turned off.", "namespace", "rule"),
	}
}

func (m *ruleMetrics) all() []*prometheus.Desc {
	return []*prometheus.Desc{m.count, m.successful, m.decisions, m.near, m.blocks, m.blocked, m.enforced, m.checks, m.duration}
}

func (m *ruleMetrics) collect(ch chan<- prometheus.Metric, s *Snapshot) {
	send(ch, m.count, prometheus.GaugeValue, float64(len(s.Rules)))
	send(ch, m.successful, prometheus.GaugeValue, oneIf(!s.RulesProblem))
	for i := range s.Checks {
		c := &s.Checks[i]
		send(ch, m.checks, prometheus.CounterValue, float64(c.Allowed), c.Namespace, "allowed")
		send(ch, m.checks, prometheus.CounterValue, float64(c.Limited), c.Namespace, "limited")
		if n := c.Latency.Count(); n > 0 { // as with commands
			sendHistogram(ch, m.duration, &c.Latency, n, c.Namespace)
		}
	}
	for i := range s.Rules[:min(len(s.Rules), maxRules)] {
		r := &s.Rules[i]
		for _, v := range [...]struct {
			result string
			n      uint64
		}{{"allowed", r.Allowed}, {"limited", r.Limited}, {"shadow_limited", r.ShadowLimited}, {"candidate_limited", r.CandidateLimited}} {
			send(ch, m.decisions, prometheus.CounterValue, float64(v.n), r.Namespace, r.Name, v.result)
		}
		send(ch, m.near, prometheus.CounterValue, float64(r.Near), r.Namespace, r.Name)
		if r.Blocks+r.Blocked > 0 {
			send(ch, m.blocks, prometheus.CounterValue, float64(r.Blocks), r.Namespace, r.Name)
			send(ch, m.blocked, prometheus.CounterValue, float64(r.Blocked), r.Namespace, r.Name)
		}
		send(ch, m.enforced, prometheus.GaugeValue, oneIf(r.Mode == "enforce"), r.Namespace, r.Name)
	}
}
