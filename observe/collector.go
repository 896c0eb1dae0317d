package observe

import (
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"limitdb/internal/stats"
)

// namespace is the prefix of all our metrics.
const namespace = "limitdb"

// scalar is a metric without labels: one number of a Snapshot.
type scalar struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Snapshot) float64
}

// collector turns a Snapshot into constant metrics at each scrape. The server has counters of its own, so
// counting costs nothing here.
type collector struct {
	snapshot func() Snapshot
	scalars  []scalar
	durable  []scalar // sent only if state is kept on disk
	cluster  []scalar // sent only if several nodes hold the state
	groups   []groupMetric

	build, rejected, closed                 *prometheus.Desc
	calls, errors, duration, decisions      *prometheus.Desc
	rules                                   ruleMetrics
	top, logged, dropped, changes, missing  *prometheus.Desc
	envoy                                   envoyMetrics
	reloads, reloadSuccessful, reloadedTime *prometheus.Desc
	certificate, across                     *prometheus.Desc
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

func newCollector(snapshot func() Snapshot) *collector {
	return &collector{
		snapshot: snapshot,
		scalars:  slices.Concat(clientScalars(), serverScalars(), backupScalars()),
		durable:  durabilityScalars(),
		cluster:  replicationScalars(),
		groups:   groupMetrics(),

		build:     describe("build_info", "Always 1; the labels say what is running.", "version", "goversion"),
		rejected:  describe("connections_rejected_total", "Connections turned away, by reason.", "reason"),
		closed:    describe("connections_closed_total", "Connections that ended, by reason.", "reason"),
		calls:     describe("commands_total", "Calls of each command, those answered with an error included.", "command"),
		errors:    describe("command_errors_total", "Calls of each command that were answered with an error. A denial is not an error.", "command"),
		duration:  describe("command_duration_seconds", "Time that each command took, without the network.", "command"),
		decisions: describe("decisions_total", "Decisions, by result. A request for several limits, and a check under several rules, is one.", "result"),
		top:       describe("key_denials", "Denials of the keys that are denied most often, halved every minute; only with metrics-top-keys.", "key"),
		rules:     describeRules(),
		envoy:     describeEnvoy(),
		across:    describe("across_groups_results_total", "Answers to requests whose limits are in several groups of keys, by result.", "result"),
		logged:    describe("decision_log_written_total", "Decisions written to decision-log."),
		changes:   describe("audit_log_written_total", "Lines written to audit-log."),
		missing:   describe("audit_log_failed_total", "Lines that audit-log should have and has not, because it could not be written."),
		dropped:   describe("decision_log_dropped_total", "Decisions that decision-log should have and has not, because it could not be written, or not fast enough."),

		certificate: describe("certificate_expiry_seconds", "Time until the certificate in use, or the first of its file, expires; negative afterwards. The label is the directive that names the file.", "certificate"),

		reloads:          describe("config_reloads_total", "Reloads of the configuration, by result.", "result"),
		reloadSuccessful: describe("config_last_reload_successful", "Whether the last reload of the configuration succeeded: 1 or 0."),
		reloadedTime:     describe("config_last_reload_success_timestamp_seconds", "When the current configuration was loaded, in Unix time."),
	}
}

// gauge and counter make rows of the tables below.
func gauge(name, help string, value func(*Snapshot) float64) scalar {
	return scalar{describe(name, help), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*Snapshot) float64) scalar {
	return scalar{describe(name, help), prometheus.CounterValue, value}
}

// clientScalars returns the metrics of connections.
func clientScalars() []scalar {
	return []scalar{
		gauge("clients", "Clients connected now.",
			func(s *Snapshot) float64 { return float64(s.Clients.Connected) }),
		gauge("clients_max", "The most clients that may be connected at once.",
			func(s *Snapshot) float64 { return float64(s.Clients.Max) }),
		gauge("clients_blocked", "Clients whose request waits to be granted.",
			func(s *Snapshot) float64 { return float64(s.Clients.Blocked) }),
		gauge("clients_paused", "Clients held by CLIENT PAUSE.",
			func(s *Snapshot) float64 { return float64(s.Clients.Paused) }),
		gauge("clients_monitoring", "Clients in MONITOR mode.",
			func(s *Snapshot) float64 { return float64(s.Clients.Monitors) }),
		gauge("client_buffer_bytes", "Bytes held in the query and reply buffers of all clients.",
			func(s *Snapshot) float64 { return float64(s.Clients.BufferBytes) }),
		gauge("client_buffer_max_bytes", "The most bytes that all clients' buffers may hold; 0 for no limit.",
			func(s *Snapshot) float64 { return float64(s.Clients.BufferBytesMax) }),
		counter("connections_accepted_total", "Connections accepted and served.",
			func(s *Snapshot) float64 { return float64(s.Clients.Accepted) }),
		counter("accept_errors_total", "Connections that could not be accepted, for example because of too many open files.",
			func(s *Snapshot) float64 { return float64(s.Clients.AcceptErrors) }),
		counter("auth_failures_total", "Wrong passwords given.",
			func(s *Snapshot) float64 { return float64(s.Clients.AuthFailures) }),
		counter("protocol_errors_total", "Connections closed because of a protocol error.",
			func(s *Snapshot) float64 { return float64(s.Clients.ProtocolErrors) }),
		counter("panics_total", "Commands that panicked; each closed its connection.",
			func(s *Snapshot) float64 { return float64(s.Clients.Panics) }),
		counter("across_groups_requests_total", "Requests whose limits are in several groups of keys.",
			func(s *Snapshot) float64 { return float64(s.Crossings.Requests) }),
		counter("across_groups_denied_late_total", "Requests that one group has denied when another had, or may have, taken its part.",
			func(s *Snapshot) float64 { return float64(s.Crossings.DeniedLate) }),
		counter("across_groups_given_back_total", "Parts of requests over several groups that were given back.",
			func(s *Snapshot) float64 { return float64(s.Crossings.GivenBack) }),
		gauge("across_groups_to_give_back", "Parts of requests over several groups that wait to be given back, since their groups cannot do it now.",
			func(s *Snapshot) float64 { return float64(s.Crossings.ToGiveBack) }),
		counter("across_groups_left_total", "Parts of requests over several groups that may have stayed taken, though the requests were not granted.",
			func(s *Snapshot) float64 { return float64(s.Crossings.Left) }),
		counter("network_receive_bytes_total", "Bytes read from clients.",
			func(s *Snapshot) float64 { return float64(s.Traffic.In) }),
		counter("network_transmit_bytes_total", "Bytes written to clients.",
			func(s *Snapshot) float64 { return float64(s.Traffic.Out) }),
	}
}

// serverScalars returns the metrics of the process and its table of keys.
func serverScalars() []scalar {
	return []scalar{
		gauge("uptime_seconds", "Time since the server started.",
			func(s *Snapshot) float64 { return s.Uptime.Seconds() }),
		gauge("clock_offset_seconds", "How far the machine's clock is ahead of the clock that decisions use.",
			func(s *Snapshot) float64 { return s.ClockOffset.Seconds() }),
		gauge("slowlog_entries", "Entries in the slow log.",
			func(s *Snapshot) float64 { return float64(s.SlowlogEntries) }),
		counter("slow_commands_total", "Commands slow enough for the slow log.",
			func(s *Snapshot) float64 { return float64(s.SlowCommands) }),
		counter("peeks_total", "Peeks: decisions that take nothing.",
			func(s *Snapshot) float64 { return float64(s.Engine.Peeked) }),
		counter("refunds_total", "Refunds: requests that give something back.",
			func(s *Snapshot) float64 { return float64(s.Engine.Refunded) }),
		gauge("keys", "Keys in the table.",
			func(s *Snapshot) float64 { return float64(s.Engine.Keys) }),
		gauge("engine_bytes", "Bytes that the table of keys uses.",
			func(s *Snapshot) float64 { return float64(s.Engine.Bytes) }),
		gauge("engine_max_bytes", "The most bytes that the table of keys may use; 0 for no limit.",
			func(s *Snapshot) float64 { return float64(s.MaxMemory) }),
		counter("keys_expired_total", "Keys removed because they had expired.",
			func(s *Snapshot) float64 { return float64(s.Engine.Expired) }),
		counter("keys_evicted_total", "Keys removed to keep the table below maxmemory.",
			func(s *Snapshot) float64 { return float64(s.Engine.Evicted) }),
		gauge("waiting_requests", "Requests that wait to be granted.",
			func(s *Snapshot) float64 { return float64(s.Engine.Waiting) }),
		gauge("waiting_keys", "Keys that requests wait for.",
			func(s *Snapshot) float64 { return float64(s.Engine.WaitingKeys) }),
		counter("waits_total", "Requests that have waited to be granted.",
			func(s *Snapshot) float64 { return float64(s.Engine.Waited) }),
		counter("holds_total", "Estimates that were held.",
			func(s *Snapshot) float64 { return float64(s.Engine.HoldsTaken) }),
		counter("holds_settled_total", "Holds that were committed or cancelled.",
			func(s *Snapshot) float64 { return float64(s.Engine.HoldsSettled) }),
		counter("holds_over_total", "Holds that cost more than was left of the limit.",
			func(s *Snapshot) float64 { return float64(s.Engine.HoldsOver) }),
		counter("holds_returned_total", "Holds whose estimate went back when their time was over.",
			func(s *Snapshot) float64 { return float64(s.Engine.HoldsReturned) }),
		counter("once_repeated_total", "Requests that were sent again under their id, and took nothing.",
			func(s *Snapshot) float64 { return float64(s.Engine.OnceRepeated) }),
		counter("blocks_total", "Blocks that began: denials under a limit with BLOCK that shut a key out.",
			func(s *Snapshot) float64 { return float64(s.Engine.Blocks) }),
	}
}

// Describe sends everything that Collect can send, so that registering the collector reports a clash of
// names.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range slices.Concat(c.scalars, c.durable, c.cluster) {
		ch <- s.desc
	}
	for _, d := range []*prometheus.Desc{
		c.build, c.rejected, c.closed, c.calls, c.errors, c.duration, c.decisions, c.top, c.logged, c.dropped, c.changes, c.missing, c.across,
		c.reloads, c.reloadSuccessful, c.reloadedTime, c.certificate,
	} {
		ch <- d
	}
	for _, m := range c.groups {
		ch <- m.desc
	}
	for _, d := range slices.Concat(c.rules.all(), c.envoy.all()) {
		ch <- d
	}
}

// Collect takes one Snapshot and sends all of it.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.snapshot()
	for _, m := range c.scalars {
		send(ch, m.desc, m.kind, m.value(&s))
	}
	if s.Durability.Kept {
		for _, m := range c.durable {
			send(ch, m.desc, m.kind, m.value(&s))
		}
	}
	if s.Replication.On {
		for _, m := range c.cluster {
			send(ch, m.desc, m.kind, m.value(&s))
		}
	}
	for i := range s.Groups {
		for _, m := range c.groups {
			send(ch, m.desc, m.kind, m.value(&s.Groups[i]), strconv.Itoa(s.Groups[i].Number))
		}
	}
	send(ch, c.build, prometheus.GaugeValue, 1, s.Version, runtime.Version())
	for _, n := range s.Clients.Rejected {
		send(ch, c.rejected, prometheus.CounterValue, float64(n.N), n.Name)
	}
	for _, n := range s.Clients.Closed {
		send(ch, c.closed, prometheus.CounterValue, float64(n.N), n.Name)
	}
	for _, n := range s.Crossings.Results {
		send(ch, c.across, prometheus.CounterValue, float64(n.N), n.Name)
	}
	send(ch, c.decisions, prometheus.CounterValue, float64(s.Engine.Allowed), "allowed")
	send(ch, c.decisions, prometheus.CounterValue, float64(s.Engine.Limited), "limited")
	for name, n := range labels(s.TopLimited) {
		send(ch, c.top, prometheus.GaugeValue, float64(n), name)
	}
	c.rules.collect(ch, &s)
	c.envoy.collect(ch, &s)
	if s.DecisionLog {
		send(ch, c.logged, prometheus.CounterValue, float64(s.DecisionsLogged))
		send(ch, c.dropped, prometheus.CounterValue, float64(s.DecisionsDropped))
	}
	if s.AuditLog {
		send(ch, c.changes, prometheus.CounterValue, float64(s.ChangesLogged))
		send(ch, c.missing, prometheus.CounterValue, float64(s.ChangesMissing))
	}
	for _, cert := range s.Certificates {
		send(ch, c.certificate, prometheus.GaugeValue, cert.Left.Seconds(), cert.Directive)
	}
	c.collectCommands(ch, s.Commands)
	c.collectConfig(ch, &s.Config)
}

// maxLabel is the most bytes of a key in a label.
const maxLabel = 128

// labels returns the keys as labels, which must be UTF-8. Keys that look the same when they are cut count as
// one.
func labels(keys []stats.Count) map[string]uint64 {
	m := make(map[string]uint64, len(keys))
	for _, k := range keys {
		m[label(k.Name)] += k.N
	}
	return m
}

// label returns a text as a label.
func label(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxLabel {
		text = strings.ToValidUTF8(text[:maxLabel], "") + "…"
	}
	return text
}

func (c *collector) collectCommands(ch chan<- prometheus.Metric, commands []stats.Command) {
	for i := range commands {
		cmd := &commands[i]
		send(ch, c.calls, prometheus.CounterValue, float64(cmd.Calls()), cmd.Name)
		send(ch, c.errors, prometheus.CounterValue, float64(cmd.Errors()), cmd.Name)
		// Leave out the two dozen lines of each command that was never called: they would be most of the
		// page.
		if n := cmd.Latency.Count(); n > 0 {
			sendHistogram(ch, c.duration, &cmd.Latency, n, cmd.Name)
		}
	}
}

func (c *collector) collectConfig(ch chan<- prometheus.Metric, g *Config) {
	send(ch, c.reloads, prometheus.CounterValue, float64(g.Reloads-min(g.Reloads, g.ReloadFailures)), "ok")
	send(ch, c.reloads, prometheus.CounterValue, float64(g.ReloadFailures), "failed")
	send(ch, c.reloadSuccessful, prometheus.GaugeValue, oneIf(g.LastReloadOK))
	if !g.LastReload.IsZero() {
		send(ch, c.reloadedTime, prometheus.GaugeValue, unixSeconds(g.LastReload.UnixNano()))
	}
}

// send sends one number. If it cannot be a metric, the scrape gets an error.
func send(ch chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, kind, v, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	ch <- m
}

func sendHistogram(ch chan<- prometheus.Metric, d *prometheus.Desc, h *stats.Histogram, count uint64, labels ...string) {
	// Prometheus wants cumulative counts. The last bucket has no upper bound; it is the difference to the
	// total count.
	upTo := make(map[float64]uint64, stats.Buckets-1)
	var n uint64
	for i, b := range h.Buckets[:stats.Buckets-1] {
		n += b
		upTo[seconds(stats.Bound(i))] = n
	}
	m, err := prometheus.NewConstHistogram(d, count, float64(h.Sum)/1e9, upTo, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	ch <- m
}
