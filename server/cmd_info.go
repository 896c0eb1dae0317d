package server

import (
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/pubsub"
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
		{"cpu", false, (*infoText).cpu},
		{"modules", false, func(*infoText) {}},
		{"commandstats", true, (*infoText).commandStats},
		{"latencystats", true, (*infoText).latencyStats},
		{"errorstats", false, (*infoText).errorStats},
		{"cluster", false, func(t *infoText) { t.field("cluster_enabled", yesNo(t.srv.opts.Replication != nil)) }},
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

// info replies with the requested sections: default, all, everything or names.
func (c *call) info() {
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
	sections, shard, table := infoSections(), 0, c.srv.held()
	c.InSteps(nil, func() bool {
		if shard >= 0 {
			if shard = table.AddStats(&t.engine, shard, infoShards); shard == 0 {
				shard = -1 // all shards have been added
			}
			return false
		}
		for len(sections) > 0 {
			sec := sections[0]
			sections = sections[1:]
			if all || want[sec.name] || (def && !sec.extra) {
				t.section(sec)
				return false
			}
		}
		c.Verbatim(string(t.b))
		return true
	})
}

// infoText is INFO being written.
type infoText struct {
	srv    *Server
	now    int64
	engine engine.Stats
	b      []byte
}

func (t *infoText) section(sec infoSection) {
	if len(t.b) > 0 {
		t.b = append(t.b, "\r\n"...)
	}
	t.b = append(append(t.b, "# "...), strings.ToUpper(sec.name[:1])...)
	t.b = append(append(t.b, sec.name[1:]...), "\r\n"...)
	sec.write(t)
}

func (t *infoText) field(name string, value any) {
	t.b = append(append(t.b, name...), ':')
	switch v := value.(type) {
	case string:
		t.b = append(t.b, v...)
	case int:
		t.b = strconv.AppendInt(t.b, int64(v), 10)
	case int64:
		t.b = strconv.AppendInt(t.b, v, 10)
	case uint64:
		t.b = strconv.AppendUint(t.b, v, 10)
	default:
		t.b = fmt.Append(t.b, v)
	}
	t.b = append(t.b, "\r\n"...)
}

func yesNo(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (t *infoText) server() {
	srv := t.srv
	up := (t.now - srv.started) / 1e9
	exe, err := os.Executable()
	if err != nil {
		exe = ""
	}
	t.field("redis_version", redisVersion)
	t.field("limitdb_version", srv.version)
	t.field("redis_git_sha1", "00000000")
	t.field("redis_git_dirty", 0)
	t.field("redis_build_id", "0")
	t.field("redis_mode", srv.mode())
	t.field("os", runtime.GOOS+" "+runtime.GOARCH)
	t.field("arch_bits", 64)
	t.field("monotonic_clock", "POSIX clock_gettime")
	t.field("multiplexing_api", "epoll")
	t.field("gcc_version", "0.0.0")
	t.field("go_version", runtime.Version())
	t.field("process_id", os.Getpid())
	t.field("process_supervised", srv.set.Supervised.Get())
	t.field("run_id", srv.runID)
	t.field("tcp_port", srv.port())
	t.field("server_time_usec", t.now/1e3)
	t.field("clock_behind_usec", srv.clock.Behind()/1e3)
	t.field("uptime_in_seconds", up)
	t.field("uptime_in_days", up/86400)
	t.field("hz", srv.set.Hz.Get())
	t.field("configured_hz", srv.set.Hz.Get())
	t.field("lru_clock", t.now/1e9&0xffffff)
	t.field("executable", exe)
	t.field("config_file", srv.registry.File())
	t.field("io_threads_active", 0)
}

func (srv *Server) port() int {
	if srv.opts.Ports != nil {
		return srv.opts.Ports()
	}
	return int(srv.set.Port.Get())
}

func (t *infoText) clients() {
	srv := t.srv
	e := &t.engine
	t.field("connected_clients", srv.clients.count())
	t.field("cluster_connections", 0)
	t.field("maxclients", srv.set.MaxClients.Get())
	t.field("client_recent_max_input_buffer", srv.queryMost.Load())
	t.field("client_recent_max_output_buffer", srv.unsentMost.Load())
	t.field("blocked_clients", srv.parked.Load())
	t.field("paused_clients", srv.pause.held())
	t.field("tracking_clients", 0)
	t.field("pubsub_clients", srv.subscribed.Load())
	t.field("watching_clients", 0)
	t.field("clients_in_timeout_table", e.Waiting)
	t.field("total_blocking_keys", e.WaitingKeys)
	t.field("total_blocking_keys_on_nokey", 0)
}

func (t *infoText) memory() {
	srv := t.srv
	e := &t.engine
	rss, heap, total := srv.memory.read(t.now)
	used := heap + uint64(e.Bytes)
	limit := srv.set.MaxMemory.Get()
	t.field("used_memory", used)
	t.field("used_memory_human", human(used))
	t.field("used_memory_rss", rss)
	t.field("used_memory_rss_human", human(rss))
	t.field("used_memory_peak", max(used, uint64(srv.peakBytes.Load())))
	t.field("used_memory_peak_human", human(max(used, uint64(srv.peakBytes.Load()))))
	t.field("used_memory_overhead", heap)
	t.field("used_memory_startup", 0)
	t.field("used_memory_dataset", e.Bytes)
	t.field("used_memory_lua", 0)
	t.field("used_memory_scripts", 0)
	t.field("used_memory_functions", 0)
	t.field("used_memory_vm_total", 0)
	t.field("total_system_memory", total)
	t.field("total_system_memory_human", human(total))
	t.field("maxmemory", limit)
	t.field("maxmemory_human", human(uint64(limit)))
	t.field("maxmemory_policy", srv.set.MaxMemoryPolicy.Get())
	t.field("mem_fragmentation_ratio", fmt.Sprintf("%.2f", float64(rss)/float64(max(used, 1))))
	t.field("mem_fragmentation_bytes", int64(rss)-int64(used))
	t.field("mem_not_counted_for_evict", 0)
	t.field("mem_clients_slaves", 0)
	t.field("mem_clients_normal", srv.clientBytes.Load())
	t.field("mem_aof_buffer", 0)
	t.field("mem_replication_backlog", 0)
	t.field("mem_allocator", runtime.Version())
	t.field("allocator_allocated", used)
	t.field("allocator_active", used)
	t.field("allocator_resident", rss)
	t.field("active_defrag_running", 0)
	t.field("lazyfree_pending_objects", 0)
	t.field("lazyfreed_objects", 0)
}

func (t *infoText) stats() {
	srv := t.srv
	ops, in, out := srv.rates.PerSecond()
	_, errorsTotal := srv.parts.Errors.Snapshot()
	for _, v := range srv.statValues(&t.engine) {
		if !strings.HasPrefix(v.name, "decisions_") {
			t.field(v.name, srv.statsBase.value(v.name, v.n))
		}
	}
	t.field("instantaneous_ops_per_sec", int64(ops))
	t.field("instantaneous_input_kbps", fmt.Sprintf("%.2f", in/1024))
	t.field("instantaneous_output_kbps", fmt.Sprintf("%.2f", out/1024))
	t.field("total_error_replies", errorsTotal)
	t.field("expired_stale_perc", "0.00")
	t.field("expired_time_cap_reached_count", 0)
	t.field("keyspace_hits", 0) // no key is ever missing: a key without state counts as unused
	t.field("keyspace_misses", 0)
	t.field("pubsub_channels", srv.topics.Len(pubsub.Channel))
	t.field("pubsub_patterns", srv.topics.Len(pubsub.Pattern))
	t.field("latest_fork_usec", 0)
	t.field("total_forks", 0)
	t.field("slave_expires_tracked_keys", 0)
	t.field("active_defrag_hits", 0)
	t.field("active_defrag_misses", 0)
	t.field("active_defrag_key_hits", 0)
	t.field("active_defrag_key_misses", 0)
	t.field("total_active_defrag_time", 0)
	t.field("total_reads_processed", srv.counts.Traffic().Reads)
}

func (t *infoText) replication() {
	if t.srv.opts.Replication != nil {
		t.node()
		return
	}
	t.field("role", "master")
	t.field("connected_slaves", 0)
	t.field("master_failover_state", "no-failover")
	t.field("master_replid", t.srv.runID)
	t.field("master_replid2", strings.Repeat("0", 40))
	t.field("master_repl_offset", 0)
	t.field("second_repl_offset", -1)
	t.field("repl_backlog_active", 0)
	t.field("repl_backlog_size", 0)
	t.field("repl_backlog_first_byte_offset", 0)
	t.field("repl_backlog_histlen", 0)
}

func (t *infoText) cpu() {
	for _, who := range []struct {
		id   int
		name string
	}{{syscall.RUSAGE_SELF, ""}, {syscall.RUSAGE_CHILDREN, "_children"}} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who.id, &u); err != nil {
			continue
		}
		t.field("used_cpu_sys"+who.name, seconds(u.Stime))
		t.field("used_cpu_user"+who.name, seconds(u.Utime))
	}
}

func seconds(tv syscall.Timeval) string { return fmt.Sprintf("%d.%06d", tv.Sec, tv.Usec) }

func (t *infoText) commandStats() {
	for _, c := range t.srv.commandTotals() {
		each := 0.0
		if c.Calls() > 0 {
			each = float64(c.Latency.Sum) / 1e3 / float64(c.Calls())
		}
		t.field("cmdstat_"+c.Name, fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			c.Calls(), c.Latency.Sum/1e3, each, c.Rejected, c.Failed))
	}
}

func (t *infoText) latencyStats() {
	wanted := t.srv.set.Percentiles()
	if len(wanted) == 0 {
		return
	}
	for _, c := range t.srv.commandTotals() {
		if c.Calls() == 0 {
			continue
		}
		parts := make([]string, len(wanted))
		for i, p := range wanted {
			parts[i] = fmt.Sprintf("p%s=%.3f", strconv.FormatFloat(p, 'f', -1, 64), float64(c.Latency.Quantile(p/100))/1e3)
		}
		t.field("latency_percentiles_usec_"+c.Name, strings.Join(parts, ","))
	}
}

func (t *infoText) errorStats() {
	counts, _ := t.srv.parts.Errors.Snapshot()
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.field("errorstat_"+name, fmt.Sprintf("count=%d", counts[name]))
	}
}

func (t *infoText) keyspace() {
	if n := t.engine.Keys; n > 0 {
		t.field("db0", fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0,subexpiry=0", n, n))
	}
}

func (t *infoText) limiter() {
	e := &t.engine
	t.field("keys", e.Keys)
	t.field("table_bytes", e.Bytes)
	t.field("waiting", e.Waiting)
	t.field("keys_waited_for", e.WaitingKeys)
	for _, v := range t.srv.statValues(&t.engine) {
		if strings.HasPrefix(v.name, "decisions_") {
			t.field(v.name, t.srv.statsBase.value(v.name, v.n))
		}
	}
	t.field("shards", t.srv.set.Shards.Get())
	t.rules()
}

// rules writes what rules are in force.
func (t *infoText) rules() {
	st := t.srv.RulesStatus()
	source, status := "command", "ok"
	if st.FromFile {
		source = "file"
	}
	if st.Problem != "" {
		status = "err"
	}
	set := t.srv.Rules()
	sum := set.Sum()
	t.field("rules", len(set.Rules()))
	t.field("rules_source", source)
	t.field("rules_sum", hex.EncodeToString(sum[:8]))
	t.field("rules_in_force_since", st.Since/int64(time.Second))
	t.field("rules_loads", st.Loaded)
	t.field("rules_failed_loads", st.Failed)
	t.field("rules_last_load_status", status)
	if st.Problem != "" {
		t.field("rules_last_error", resp.Excerpt([]byte(st.Problem)))
	}
}

// human writes bytes as Redis does: 1.50M.
func human(n uint64) string {
	units := "BKMGTP"
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%dB", n)
	}
	return fmt.Sprintf("%.2f%c", f, units[i])
}

// memoryReading holds the last reading of the process's memory from the system. A reading is
// expensive, so there is at most one every memoryEvery.
type memoryReading struct {
	mu               sync.Mutex // guards all below
	at               int64      // ns of Unix time; 0: never
	rss, heap, total uint64
}

const memoryEvery = int64(100 * time.Millisecond)

// read returns the bytes of resident memory, of Go's heap and of the machine. They are at most a
// tenth of a second old.
func (m *memoryReading) read(now int64) (rss, heap, total uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == 0 || now-m.at >= memoryEvery {
		m.at, m.rss, m.heap, m.total = now, residentBytes(), heapBytes(), totalMemory()
	}
	return m.rss, m.heap, m.total
}

// heapBytes returns the bytes of the objects on the Go heap.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// residentBytes returns the process's resident memory, or 0 if /proc does not have it.
func residentBytes() uint64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident uint64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0
	}
	return resident * uint64(os.Getpagesize())
}
