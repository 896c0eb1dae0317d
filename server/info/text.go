// Package info writes the texts of INFO and MEMORY STATS. It gets figures and returns bytes.
package info

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"limitdb/internal/stats"
)

// Text is the text of INFO.
type Text struct{ B []byte }

// Section begins a section.
func (t *Text) Section(name string) {
	if len(t.B) > 0 {
		t.B = append(t.B, "\r\n"...)
	}
	t.B = append(append(t.B, "# "...), strings.ToUpper(name[:1])...)
	t.B = append(append(t.B, name[1:]...), "\r\n"...)
}

// Field adds a field.
func (t *Text) Field(name string, value any) {
	t.B = append(append(t.B, name...), ':')
	switch v := value.(type) {
	case string:
		t.B = append(t.B, v...)
	case int:
		t.B = strconv.AppendInt(t.B, int64(v), 10)
	case int64:
		t.B = strconv.AppendInt(t.B, v, 10)
	case uint64:
		t.B = strconv.AppendUint(t.B, v, 10)
	default:
		t.B = fmt.Append(t.B, v)
	}
	t.B = append(t.B, "\r\n"...)
}

// Zeros adds fields that Redis has and that are always 0 here.
func (t *Text) Zeros(names ...string) {
	for _, name := range names {
		t.Field(name, 0)
	}
}

// YesNo returns 1 for true and 0 for false.
func YesNo(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Human returns bytes in words, as Redis does: 1.50M.
func Human(n uint64) string {
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

// CPU writes the section cpu.
func (t *Text) CPU() {
	for _, who := range []struct {
		id   int
		name string
	}{{syscall.RUSAGE_SELF, ""}, {syscall.RUSAGE_CHILDREN, "_children"}} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who.id, &u); err != nil {
			continue
		}
		t.Field("used_cpu_sys"+who.name, seconds(u.Stime))
		t.Field("used_cpu_user"+who.name, seconds(u.Utime))
	}
}

func seconds(tv syscall.Timeval) string { return fmt.Sprintf("%d.%06d", tv.Sec, tv.Usec) }

// Command writes a line of the section commandstats.
func (t *Text) Command(c *stats.Command) {
	each := 0.0
	if c.Calls() > 0 {
		each = float64(c.Latency.Sum) / 1e3 / float64(c.Calls())
	}
	t.Field("cmdstat_"+c.Name, fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
		c.Calls(), c.Latency.Sum/1e3, each, c.Rejected, c.Failed))
}

// Percentiles writes a line of the section latencystats.
func (t *Text) Percentiles(c *stats.Command, wanted []float64) {
	if len(wanted) == 0 || c.Calls() == 0 {
		return
	}
	parts := make([]string, len(wanted))
	for i, p := range wanted {
		parts[i] = fmt.Sprintf("p%s=%.3f", strconv.FormatFloat(p, 'f', -1, 64), float64(c.Latency.Quantile(p/100))/1e3)
	}
	t.Field("latency_percentiles_usec_"+c.Name, strings.Join(parts, ","))
}

// Errors writes the section errorstats.
func (t *Text) Errors(counts map[string]uint64) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Field("errorstat_"+name, fmt.Sprintf("count=%d", counts[name]))
	}
}

// Persistence has what the section persistence says beside the figures of durability.
type Persistence struct {
	Now, Started int64 // ns of Unix time
	Refusing     bool  // commands that write are refused
}

// Persistence writes the section persistence.
func (t *Text) Persistence(st *stats.Durability, p *Persistence) {
	seconds := func(ns int64, there bool) int64 {
		if !there {
			return -1
		}
		return (ns + int64(time.Second) - 1) / int64(time.Second)
	}
	status := func(failed bool) string {
		if failed {
			return "err"
		}
		return "ok"
	}
	last := st.LastSnapshot
	if last == 0 {
		last = p.Started
	}
	t.Field("loading", YesNo(st.Loading))
	t.Zeros("async_loading", "current_cow_peak", "current_cow_size")
	t.Field("rdb_changes_since_last_save", st.Changes)
	t.Field("rdb_bgsave_in_progress", YesNo(st.Snapshotting))
	t.Field("rdb_last_save_time", last/int64(time.Second))
	t.Field("rdb_last_bgsave_status", status(st.LastSnapshotFailed))
	t.Field("rdb_last_bgsave_time_sec", seconds(st.LastSnapshotTook, st.LastSnapshotTook > 0))
	t.Field("rdb_current_bgsave_time_sec", seconds(p.Now-st.SnapshotBegan, st.Snapshotting))
	t.Field("rdb_saves", st.Snapshots)
	t.Field("aof_enabled", YesNo(st.Log))
	t.Field("aof_rewrite_in_progress", YesNo(st.Log && st.Snapshotting))
	t.Field("aof_rewrite_scheduled", 0)
	t.Field("aof_last_rewrite_time_sec", seconds(st.LastSnapshotTook, st.Log && st.LastSnapshotTook > 0))
	t.Field("aof_current_rewrite_time_sec", seconds(p.Now-st.SnapshotBegan, st.Log && st.Snapshotting))
	t.Field("aof_last_bgrewrite_status", status(st.Log && st.LastSnapshotFailed))
	t.Field("aof_last_write_status", status(p.Refusing))
	if st.Log {
		t.Field("aof_current_size", st.LogBytes+st.BaseBytes)
		t.Field("aof_base_size", st.BaseBytes)
		t.Field("aof_pending_rewrite", 0)
		t.Field("aof_files", st.LogFiles)
		t.Field("aof_bytes_written", st.BytesWritten)
		t.Field("aof_writes", st.Writes)
		t.Field("aof_fsyncs", st.Syncs)
		t.Field("aof_unsynced_age_ms", st.UnsyncedAge/int64(time.Millisecond))
		t.Field("aof_failures", st.Failures)
		t.Field("aof_waiting_replies", st.Waiting)
	}
	if st.Loading {
		t.loading(st, p.Now)
	}
}

func (t *Text) loading(st *stats.Durability, now int64) {
	t.Field("loading_start_time", st.LoadBegan/int64(time.Second))
	t.Field("loading_total_bytes", st.LoadTotal)
	t.Field("loading_loaded_bytes", st.LoadedBytes)
	percent, eta := int64(0), int64(0)
	if st.LoadTotal > 0 {
		percent = st.LoadedBytes * 100 / st.LoadTotal
	}
	if st.LoadedBytes > 0 {
		eta = (now - st.LoadBegan) / 1e6 * (st.LoadTotal - st.LoadedBytes) / st.LoadedBytes / 1000
	}
	t.Field("loading_loaded_perc", percent)
	t.Field("loading_eta_seconds", max(0, eta))
}
