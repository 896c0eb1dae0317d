package server

import (
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/history"
	"limitdb/server/info"
	"limitdb/server/pubsub"
	"limitdb/server/users"
)

// infoSections are the sections of INFO in their order, with the fields that Redis' tools read.
// The sections that INFO alone does not show are marked extra.
func infoSections() []infoSection {
	return []infoSection{
		{"server", false, (*infoText).server},
		{"clients", false, (*infoText).clients},
		{"memory", false, (*infoText).memory},
		{"persistence", false, (*infoText).persistence},
		{"stats", false, (*infoText).stats},
		{"replication", false, (*infoText).replication},
		{"cpu", false, func(t *infoText) { t.CPU() }},
		{"modules", false, func(*infoText) {}},
		{"commandstats", true, (*infoText).commandStats},
		{"latencystats", true, (*infoText).latencyStats},
		{"errorstats", false, (*infoText).errorStats},
		{"cluster", false, func(t *infoText) { t.Field("cluster_enabled", info.YesNo(t.srv.opts.Replication != nil)) }},
		{"keyspace", false, (*infoText).keyspace},
		{"limiter", false, (*infoText).limiter},
	}
}

// infoShards is how many shards a step adds up.
const infoShards = 1024

type infoSection struct {
	name  string
	extra bool
	write func(*infoText)
}

// infoCommand replies with the requested sections: default, all, everything or names.
func infoCommand(c *call) {
	want := make(map[string]bool)
	all, def := false, len(c.Args) == 1
	for _, a := range c.Args[1:] {
		switch word := strings.ToLower(string(a)); word {
		case "all", "everything":
			all = true
		case "default":
			def = true
		default:
			want[word] = true
		}
	}
	t := &infoText{srv: c.srv, now: c.srv.clock.Now()}
	sections, shard, counted, table := infoSections(), 0, 0, c.srv.keyed[0].Held()
	c.InSteps(nil, func() bool {
		if counted < len(c.srv.keyed) {
			if shard = table.AddStats(&t.engine, shard, infoShards); shard > 0 {
				return false
			}
			if counted++; counted < len(c.srv.keyed) {
				table = c.srv.keyed[counted].Held()
			}
			return false
		}
		for len(sections) > 0 {
			sec := sections[0]
			sections = sections[1:]
			if all || want[sec.name] || (def && !sec.extra) {
				t.Section(sec.name)
				sec.write(t)
				return false
			}
		}
		c.Verbatim(string(t.B))
		return true
	})
}

// infoText is INFO being written.
type infoText struct {
	srv    *Server
	now    int64
	engine engine.Stats
	info.Text
}

func (t *infoText) server() {
	srv := t.srv
	up := (t.now - srv.started) / 1e9
	exe, err := os.Executable()
	if err != nil {
		exe = ""
	}
	t.Field("redis_version", redisVersion)
	t.Field("limitdb_version", srv.version)
	t.Field("redis_git_sha1", "00000000")
	t.Field("redis_git_dirty", 0)
	t.Field("redis_build_id", "0")
	t.Field("redis_mode", modeOf(t.srv.parts.Clustered))
	t.Field("os", runtime.GOOS+" "+runtime.GOARCH)
	t.Field("arch_bits", 64)
	t.Field("monotonic_clock", "POSIX clock_gettime")
	t.Field("multiplexing_api", "epoll")
	t.Field("gcc_version", "0.0.0")
	t.Field("go_version", runtime.Version())
	t.Field("process_id", os.Getpid())
	t.Field("process_supervised", srv.set.Supervised.Get())
	t.Field("run_id", srv.runID)
	t.Field("tcp_port", t.port())
	t.Field("server_time_usec", t.now/1e3)
	t.Field("clock_behind_usec", srv.group.Behind()/1e3)
	t.Field("uptime_in_seconds", up)
	t.Field("uptime_in_days", up/86400)
	t.Field("hz", srv.set.Hz.Get())
	t.Field("configured_hz", srv.set.Hz.Get())
	t.Field("lru_clock", t.now/1e9&0xffffff)
	t.Field("executable", exe)
	t.Field("config_file", srv.registry.File())
	t.Field("io_threads_active", 0)
}

// modeOf returns Redis' word for whether the server works alone or with others.
func modeOf(clustered bool) string {
	if clustered {
		return "cluster"
	}
	return "standalone"
}

func (t *infoText) port() int {
	if ports := t.srv.opts.Ports; ports != nil {
		return ports()
	}
	return int(t.srv.set.Port.Get())
}

func (t *infoText) clients() {
	srv := t.srv
	e := &t.engine
	t.Field("connected_clients", srv.clients.Len())
	t.Field("cluster_connections", 0)
	t.Field("maxclients", srv.set.MaxClients.Get())
	t.Field("client_recent_max_input_buffer", srv.clients.QueryMost.Load())
	t.Field("client_recent_max_output_buffer", srv.clients.UnsentMost.Load())
	t.Field("blocked_clients", srv.clients.Parked.Load())
	t.Field("paused_clients", srv.pause.Held.Len())
	t.Field("tracking_clients", srv.clients.Tracking.Load())
	t.Field("pubsub_clients", srv.clients.Subscribed.Load())
	t.Field("watching_clients", srv.clients.Watching.Load())
	t.Field("clients_in_timeout_table", e.Waiting)
	t.Field("total_blocking_keys", e.WaitingKeys)
	t.Field("total_blocking_keys_on_nokey", 0)
}

func (t *infoText) memory() {
	srv := t.srv
	e := &t.engine
	rss, heap, total := srv.memory.Read(t.now)
	used := heap + uint64(srv.bytes())
	peak := srv.memory.Peak(used)
	limit := srv.set.MaxMemory.Get()
	t.Field("used_memory", used)
	t.Field("used_memory_human", info.Human(used))
	t.Field("used_memory_rss", rss)
	t.Field("used_memory_rss_human", info.Human(rss))
	t.Field("used_memory_peak", peak)
	t.Field("used_memory_peak_human", info.Human(peak))
	t.Field("used_memory_peak_perc", fmt.Sprintf("%.2f%%", 100*float64(used)/float64(max(peak, 1))))
	t.Field("used_memory_overhead", heap)
	t.Field("used_memory_startup", 0)
	t.Field("used_memory_dataset", e.Bytes)
	t.Field("used_memory_dataset_perc", fmt.Sprintf("%.2f%%", 100*float64(e.Bytes)/float64(max(used, 1))))
	cached, bytes, _ := srv.scripts.Sizes()
	t.Field("used_memory_scripts", bytes)
	t.Field("number_of_cached_scripts", cached)
	t.Zeros("used_memory_lua", "used_memory_functions", "used_memory_vm_total")
	t.Field("total_system_memory", total)
	t.Field("total_system_memory_human", info.Human(total))
	t.Field("maxmemory", limit)
	t.Field("maxmemory_human", info.Human(uint64(limit)))
	t.Field("maxmemory_auto", info.YesNo(srv.set.MaxMemory.Auto()))
	t.Field("maxmemory_policy", srv.set.MaxMemoryPolicy.Get())
	t.Field("mem_fragmentation_ratio", fmt.Sprintf("%.2f", float64(rss)/float64(max(used, 1))))
	t.Field("mem_fragmentation_bytes", int64(rss)-int64(used))
	t.Zeros("mem_not_counted_for_evict", "mem_clients_slaves")
	t.Field("mem_clients_normal", srv.clients.Bytes.Load())
	t.Zeros("mem_aof_buffer", "mem_replication_backlog")
	t.Field("mem_allocator", runtime.Version())
	t.Field("allocator_allocated", used)
	t.Field("allocator_active", used)
	t.Field("allocator_resident", rss)
	t.Zeros("active_defrag_running", "lazyfree_pending_objects", "lazyfreed_objects")
}

func (t *infoText) stats() {
	srv := t.srv
	ops, in, out := srv.rates.PerSecond()
	_, errorsTotal := srv.parts.Errors.Snapshot()
	for _, v := range t.values() {
		if !strings.HasPrefix(v.name, "decisions_") {
			t.Field(v.name, srv.base.Value(v.name, v.n))
		}
	}
	t.Field("instantaneous_ops_per_sec", int64(ops))
	t.Field("instantaneous_input_kbps", fmt.Sprintf("%.2f", in/1024))
	t.Field("instantaneous_output_kbps", fmt.Sprintf("%.2f", out/1024))
	t.Field("total_error_replies", errorsTotal)
	t.Field("expired_stale_perc", "0.00")
	t.Field("expired_time_cap_reached_count", 0)
	t.Field("keyspace_hits", 0) // not counted: a limit has no misses, because a key without state is an unused one
	t.Field("keyspace_misses", 0)
	t.Field("pubsub_channels", srv.topics.Len(pubsub.Channel))
	t.Field("pubsub_patterns", srv.topics.Len(pubsub.Pattern))
	t.Zeros("latest_fork_usec", "total_forks", "slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses")
	t.Zeros("active_defrag_key_hits", "active_defrag_key_misses", "total_active_defrag_time")
	t.Field("total_reads_processed", srv.counts.Traffic().Reads)
}

func (t *infoText) replication() {
	if t.srv.opts.Replication != nil {
		t.srv.opts.Replication.Section(&t.Text, t.srv.counters.forwarded.Load(), t.srv.counters.unknownOutcomes.Load())
		return
	}
	t.Field("role", "master")
	t.Field("connected_slaves", 0)
	t.Field("master_failover_state", "no-failover")
	t.Field("master_replid", t.srv.runID)
	t.Field("master_replid2", strings.Repeat("0", 40))
	t.Field("master_repl_offset", 0)
	t.Field("second_repl_offset", -1)
	t.Zeros("repl_backlog_active", "repl_backlog_size", "repl_backlog_first_byte_offset", "repl_backlog_histlen")
}

func (t *infoText) commandStats() {
	for _, c := range t.srv.latency.Commands() {
		t.Command(&c)
	}
}

func (t *infoText) latencyStats() {
	for _, c := range t.srv.latency.Commands() {
		t.Percentiles(&c, t.srv.set.Percentiles())
	}
}

func (t *infoText) errorStats() {
	counts, _ := t.srv.parts.Errors.Snapshot()
	t.Errors(counts)
}

func (t *infoText) persistence() {
	st := t.srv.durable.Figures()
	t.Persistence(&st, &info.Persistence{Now: t.now, Started: t.srv.started, Refusing: t.srv.Refusing()})
}

func (t *infoText) keyspace() {
	if n := t.engine.Keys; n > 0 {
		t.Field("db0", fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0,subexpiry=0", n, n))
	}
}

func (t *infoText) limiter() {
	e := &t.engine
	t.Field("keys", e.Keys)
	t.Field("table_bytes", e.Bytes)
	t.Field("waiting", e.Waiting)
	t.Field("keys_waited_for", e.WaitingKeys)
	for _, v := range t.values() {
		if strings.HasPrefix(v.name, "decisions_") {
			t.Field(v.name, t.srv.base.Value(v.name, v.n))
		}
	}
	t.Field("shards", t.srv.set.Shards.Get())
	t.rules()
}

// rules writes the figures of the rules in force.
func (t *infoText) rules() {
	st := t.srv.rules.Status()
	source, status := "command", "ok"
	if st.FromFile {
		source = "file"
	}
	if st.Problem != "" {
		status = "err"
	}
	set := t.srv.rules.Set()
	sum := set.Sum()
	t.Field("rules", len(set.Rules()))
	t.Field("rules_source", source)
	t.Field("rules_sum", hex.EncodeToString(sum[:8]))
	t.Field("rules_in_force_since", st.Since/int64(time.Second))
	t.Field("rules_domains", len(t.srv.rules.Domains()))
	t.Field("rules_loads", st.Loaded)
	t.Field("rules_failed_loads", st.Failed)
	t.Field("rules_last_load_status", status)
	if st.Problem != "" {
		t.Field("rules_last_error", resp.Excerpt([]byte(st.Problem)))
	}
}

// statValue is one counter of INFO stats that CONFIG RESETSTAT resets.
type statValue struct {
	name string
	n    uint64
}

// values returns these counters since the start of the process.
func (t *infoText) values() []statValue {
	srv, e := t.srv, &t.engine
	traffic, c := srv.counts.Traffic(), &srv.counters
	return []statValue{
		{"total_connections_received", c.connections.Load()},
		{"total_commands_processed", traffic.Calls},
		{"total_net_input_bytes", traffic.In},
		{"total_net_output_bytes", traffic.Out},
		{"rejected_connections", c.rejected.Load()},
		{"denied_connections", c.denied.Load()},
		{"expired_keys", e.Expired},
		{"evicted_keys", e.Evicted},
		{"evicted_denied_keys", e.EvictedDenied},
		{"evicted_clients", srv.clients.Closed.Of(clients.ErrEvicted)},
		{"client_output_buffer_limit_disconnections", srv.clients.Closed.Of(clients.ErrOutput)},
		{"client_timeout_disconnections", srv.clients.Closed.Of(clients.ErrIdle, clients.ErrAuthTime, clients.ErrCommandTime, clients.ErrWriteTime)},
		{"acl_access_denied_auth", c.authFailures.Load()},
		{"acl_access_denied_cmd", c.denials[users.Command].Load()},
		{"acl_access_denied_key", c.denials[users.Key].Load()},
		{"acl_access_denied_channel", c.denials[users.Channel].Load()},
		{"protocol_errors", c.protocolErrors.Load()},
		{"cross_protocol_connections", c.crossProtocol.Load()},
		{"unknown_commands", c.unknown.Load()},
		{"panics_contained", c.panics.Load()},
		{"decisions_allowed", e.Allowed + srv.Rules().Free()},
		{"decisions_limited", e.Limited},
		{"decisions_shadow_limited", srv.Rules().Shadowed()},
		{"decisions_across_groups", srv.crossings.Requests.Load()},
		{"decisions_across_groups_granted", srv.crossings.Results[across.Granted].Load()},
		{"decisions_across_groups_denied", srv.crossings.Results[across.Denied].Load()},
		{"decisions_across_groups_denied_late", srv.crossings.DeniedLate.Load()},
		{"decisions_across_groups_failed", srv.crossings.Results[across.Failed].Load()},
		{"decisions_across_groups_leaderless", srv.crossings.Results[across.Leaderless].Load()},
		{"decisions_across_groups_unknown", srv.crossings.Results[across.Unknown].Load()},
		{"across_groups_given_back", srv.crossings.GivenBack.Load()},
		{"across_groups_left_taken", srv.crossings.Left.Load()},
		{"decisions_peeked", e.Peeked},
		{"decisions_refunded", e.Refunded},
		{"decisions_refused_oom", e.Refused},
		{"decisions_forgiven_ns", e.Forgiven},
		{"decisions_waited", e.Waited},
		{"holds_taken", e.HoldsTaken},
		{"holds_settled", e.HoldsSettled},
		{"holds_over", e.HoldsOver},
		{"holds_returned", e.HoldsReturned},
		{"once_repeated", e.OnceRepeated},
		{"blocks_begun", e.Blocks},
	}
}

// resetStat is CONFIG RESETSTAT: it restarts the figures of INFO from zero.
func resetStat(c *call) {
	srv, values := c.srv, map[string]uint64{}
	t := &infoText{srv: srv, engine: srv.stats()}
	for _, v := range t.values() {
		values[v.name] = v.n
	}
	c.Errors.Reset()
	srv.base.Reset(srv.table.Totals(srv.counts), values)
	c.OK()
}

// stats returns the sum of the figures of the engines in force.
func (srv *Server) stats() (sum engine.Stats) {
	for _, g := range srv.keyed {
		e := g.Engine.Load()
		for shard := e.AddStats(&sum, 0, infoShards); shard > 0; {
			shard = e.AddStats(&sum, shard, infoShards)
		}
	}
	return sum
}

// Figures returns the figures of the server, for metrics.
func (srv *Server) Figures() stats.Server {
	c := &srv.counters
	rejected, denied := c.rejected.Load(), c.denied.Load()
	f := stats.Server{
		Version: srv.version, Uptime: time.Duration(srv.clock.Now() - srv.started),
		Clients: stats.Clients{
			Connected: int64(srv.clients.Near()), Max: srv.set.MaxClients.Get(),
			Blocked: srv.clients.Parked.Load(), Paused: int64(srv.pause.Held.Len()), Monitors: int64(srv.monitors.Len()),
			BufferBytes: srv.clients.Bytes.Load(), BufferBytesMax: srv.clients.Budget(),
			Accepted: c.connections.Load() - rejected - denied,
			Rejected: []stats.Count{{Name: "maxclients", N: rejected}, {Name: "protected-mode", N: denied}},
			Closed:   srv.clients.Closed.Counts(), AuthFailures: c.authFailures.Load(), ProtocolErrors: c.protocolErrors.Load(), Panics: c.panics.Load(),
		},
		Traffic: srv.counts.Traffic(), Commands: srv.table.Totals(srv.counts),
		SlowlogEntries: srv.slowlog.Len(), SlowCommands: srv.slowlog.Total(),
		Crossings: stats.Crossings{
			Requests: srv.crossings.Requests.Load(), DeniedLate: srv.crossings.DeniedLate.Load(),
			GivenBack: srv.crossings.GivenBack.Load(), Left: srv.crossings.Left.Load(), ToGiveBack: srv.returns.Len(),
		},
	}
	for o := across.Granted; o <= across.Unknown; o++ {
		f.Crossings.Results = append(f.Crossings.Results, stats.Count{Name: o.String(), N: srv.crossings.Results[o].Load()})
	}
	return f
}

// nodeName returns the id of this node, "" for a server that stands alone.
func nodeName(srv *Server) string {
	if srv.opts.Replication == nil {
		return ""
	}
	id, _ := srv.opts.Replication.Leader()
	return id
}

// historyFigures returns what the history keeps.
func historyFigures(srv *Server) history.Figures {
	e := srv.stats()
	f := history.Figures{
		Allowed: e.Allowed + srv.Rules().Free(), Limited: e.Limited, Shadow: srv.Rules().Shadowed(), Expired: e.Expired, Evicted: e.Evicted,
		HoldsTaken: e.HoldsTaken, HoldsSettled: e.HoldsSettled, HoldsOver: e.HoldsOver, HoldsReturned: e.HoldsReturned, Blocks: e.Blocks,
		Keys: e.Keys, Bytes: e.Bytes, MaxBytes: srv.set.MaxMemory.Get(),
		Clients: int64(srv.clients.Near()), MaxClients: srv.set.MaxClients.Get(), Waiting: e.Waiting,
	}
	for _, name := range decides {
		times := srv.counts.Command(srv.table.find([]byte(name)).ID).Latency
		f.Times.Add(&times)
	}
	return f
}

// decides has the commands that decide.
var decides = [...]string{"CL.THROTTLE", "GCRA", "RL.TAKE", "RL.TAKEALL", "RL.CHECK", "RL.PEEK", "RL.RESERVE"}

// checkTimes returns how long the checks in each namespace took.
func checkTimes(srv *Server) (all []history.Checks) {
	for _, c := range srv.Rules().Checks() {
		all = append(all, history.Checks{Namespace: c.Namespace, Times: c.Took})
	}
	return all
}
