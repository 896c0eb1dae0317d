package observe

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"limitdb/internal/stats"
)

// envoyMetrics are the metrics of limits in trees of descriptors, with the names and labels that Envoy's rate limit service gives Prometheus, so that its
// dashboards stay. That service does not say that they are counters.
type envoyMetrics struct{ total, within, near, over, shadow *prometheus.Desc }

func describeEnvoy() envoyMetrics {
	of := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("ratelimit_service_rate_limit_"+name, help, []string{"domain", "key1", "key2"}, nil)
	}
	return envoyMetrics{
		total:  of("total_hits", "Hits on each limit of Envoy's descriptors; only with envoy-metrics. The first 1000 limits have this."),
		within: of("within_limit", "Hits that were within the limit."),
		near:   of("near_limit", "Hits within the limit that took more than four fifths of it."),
		over:   of("over_limit", "Hits that were over the limit, also in shadow mode."),
		shadow: of("shadow_mode", "Hits over the limit that shadow mode let pass."),
	}
}

func (m *envoyMetrics) all() []*prometheus.Desc {
	return []*prometheus.Desc{m.total, m.within, m.near, m.over, m.shadow}
}

// envoyLabels returns the labels for a limit's name: the domain, and the first two keys. What is deeper has none.
func envoyLabels(name string) (labels [3]string) {
	for i := range labels {
		labels[i], name, _ = strings.Cut(name, ".")
		labels[i] = label(labels[i])
	}
	return labels
}

func (m *envoyMetrics) collect(ch chan<- prometheus.Metric, s *Snapshot) {
	sums := map[[3]string]stats.EnvoyLimit{}
	for name, l := range s.EnvoyLimits {
		labels := envoyLabels(name)
		sums[labels] = sums[labels].Plus(l)
	}
	for labels, l := range sums {
		for _, v := range [...]struct {
			desc *prometheus.Desc
			n    uint64
		}{{m.total, l.Total}, {m.within, l.Within}, {m.near, l.Near}, {m.over, l.Over}, {m.shadow, l.Shadow}} {
			send(ch, v.desc, prometheus.UntypedValue, float64(v.n), labels[:]...)
		}
	}
}
