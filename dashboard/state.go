package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/rules"
)

// state is what the page shows of the server and its cluster.
type state struct {
	Version  string    `json:"version"`
	Uptime   int64     `json:"uptime_s"`
	Now      int64     `json:"now"`       // Unix ms
	NotReady string    `json:"not_ready"` // why no decisions are made, "" if they are
	Concerns []concern `json:"concerns"`
	MayWrite bool      `json:"may_write"`
	Password bool      `json:"password"` // there is one
	Port     int       `json:"port"`

	Figures figures  `json:"figures"`
	Minutes *minutes `json:"minutes"`    // if the query asks for them
	Rules   []rule   `json:"rules"`      // over the time in the query
	More    int      `json:"more_rules"` // that are not in Rules
	Top     []topKey `json:"top"`

	Log     logState `json:"log"`
	Cluster cluster  `json:"cluster"`
}

// figures are the reply to RL.HISTORY, of the node that decides.
type figures struct {
	Problem    string   `json:"problem"` // why there are none, "" if there are
	Node       string   `json:"node"`
	Time       int64    `json:"time"` // Unix ms
	Allowed    int64    `json:"allowed"`
	Limited    int64    `json:"limited"`
	Shadow     int64    `json:"shadow"`
	Expired    int64    `json:"expired"`
	Evicted    int64    `json:"evicted"`
	Holds      int64    `json:"holds"` // that were taken
	Settled    int64    `json:"settled"`
	Over       int64    `json:"over"`
	Returned   int64    `json:"returned"`
	Blocks     int64    `json:"blocks"` // that began
	BytesMax   int64    `json:"bytes_max"`
	ClientsMax int64    `json:"clients_max"`
	Median     float64  `json:"p50"` // of the last 10 s, in µs; 0 if there was none
	P99        float64  `json:"p99"`
	Samples    []sample `json:"samples"`
	Checks     []checks `json:"checks"`
}

// minutes are the figures of the node that decides by the minute.
type minutes struct {
	Problem string   `json:"problem"` // why there are none, "" if there are
	Samples []sample `json:"samples"`
}

// sample has the figures of one second or minute.
type sample struct {
	At      int64   `json:"at"` // its end, Unix ms
	Took    int64   `json:"took_ms"`
	Allowed int64   `json:"allowed"`
	Limited int64   `json:"limited"`
	Shadow  int64   `json:"shadow"` // of the allowed: would have been limited
	Median  float64 `json:"p50"`    // times of a decision, in µs; 0 if there was none
	P99     float64 `json:"p99"`
	P999    float64 `json:"p999"`
	Keys    int64   `json:"keys"`
	Bytes   int64   `json:"bytes"`
	Clients int64   `json:"clients"`
	Waiting int64   `json:"waiting"`
}

// checks is how long the checks in a namespace took in the last minutes.
type checks struct {
	Namespace string  `json:"namespace"`
	Count     int64   `json:"count"`
	Median    float64 `json:"p50"` // µs; 0 if there was none
	P99       float64 `json:"p99"`
}

// figures asks the node that decides for what has changed since a time.
func (do Commands) figures(ctx context.Context, since int64) figures {
	v, err := do.ask(ctx, "RL.HISTORY", "SINCE", decimal(max(0, since)))
	if err != nil {
		return figures{Problem: err.Error(), Samples: []sample{}, Checks: []checks{}}
	}
	r := fieldsOf(v)
	f := figures{
		Node: r.text("node"), Time: r.int("time"), Allowed: r.int("allowed"), Limited: r.int("limited"), Shadow: r.int("shadow"),
		Expired: r.int("expired"), Evicted: r.int("evicted"),
		Holds: r.int("holds_taken"), Settled: r.int("holds_settled"), Over: r.int("holds_over"), Returned: r.int("holds_returned"), Blocks: r.int("blocks"),
		BytesMax: r.int("maxmemory"), ClientsMax: r.int("maxclients"),
		Median: micros(r.int("p50_nsec")), P99: micros(r.int("p99_nsec")), Samples: samplesOf(r), Checks: []checks{},
	}
	for _, e := range r["checks"].Elems {
		if n := ints(e); len(n) >= 4 {
			f.Checks = append(f.Checks, checks{e.Elems[0].Text, n[1], micros(n[2]), micros(n[3])})
		}
	}
	return f
}

// byMinute asks the node that decides for the minutes that ended after a time.
func (do Commands) byMinute(ctx context.Context, since int64) *minutes {
	v, err := do.ask(ctx, "RL.HISTORY", "SINCE", decimal(max(0, since)), "BY", "MINUTE")
	if err != nil {
		return &minutes{err.Error(), []sample{}}
	}
	return &minutes{"", samplesOf(fieldsOf(v))}
}

// samplesOf returns the samples of a reply to RL.HISTORY.
func samplesOf(r fields) []sample {
	all := []sample{}
	for _, e := range r["samples"].Elems {
		if n := ints(e); len(n) >= 12 {
			all = append(all, sample{n[0], n[1], n[2], n[3], n[4], micros(n[5]), micros(n[6]), micros(n[7]), n[8], n[9], n[10], n[11]})
		}
	}
	return all
}

// ints returns the elements of a list as numbers.
func ints(v resp.Value) []int64 {
	all := make([]int64, len(v.Elems))
	for i, e := range v.Elems {
		all[i] = e.Int
	}
	return all
}

// rule is a rule with its counters.
type rule struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Mode      string `json:"mode"`
	Allowed   int64  `json:"allowed"`
	Limited   int64  `json:"limited"`
	Shadow    int64  `json:"shadow"` // would have been limited, by the rule in shadow mode or by its candidate
	Near      int64  `json:"near"`
	Blocks    int64  `json:"blocks"`  // that began
	Blocked   int64  `json:"blocked"` // denied because of one
	Since     int64  `json:"since"`   // when the counters began, Unix s; 0 if unknown
}

// maxRules is how many rules the page shows: those that limited most.
const maxRules = 100

// most returns the rules to show, in the order of the file, and how many more there are.
func most(all []rule) (shown []rule, more int) {
	at := make([]int, len(all))
	for i := range at {
		at[i] = i
	}
	if more = max(0, len(all)-maxRules); more > 0 {
		slices.SortStableFunc(at, func(i, j int) int { return cmp.Compare(all[j].Limited+all[j].Shadow, all[i].Limited+all[i].Shadow) })
		at = at[:maxRules]
		slices.Sort(at)
	}
	shown = make([]rule, len(at))
	for i, j := range at {
		shown[i] = all[j]
	}
	return shown, more
}

// rules returns the counters of the rules of the node that decides, over a time such as 1h, or since they began for "".
func (do Commands) rules(ctx context.Context, over string) (shown []rule, more int) {
	words := []string{"RL.RULES", "STATS"}
	if over != "" {
		words = append(words, "OVER", over)
	}
	v, err := do.ask(ctx, words...)
	if err != nil {
		return []rule{}, 0
	}
	all := make([]rule, len(v.Elems))
	for i, e := range v.Elems {
		all[i] = counted(fieldsOf(e))
	}
	return most(all)
}

// counted returns a rule of RL.RULES STATS.
func counted(f fields) rule {
	return rule{
		f.text("namespace"), f.text("name"), f.text("mode"), f.int("allowed"), f.int("limited"),
		f.int("shadow_limited") + f.int("candidate_limited"), f.int("near_limit"), f.int("blocks"), f.int("blocked"), f.int("since"),
	}
}

// topKey is a key that is denied often. ID has all its bytes; Text is for people.
type topKey struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	Count int64  `json:"count"`
}

type logState struct {
	Kept         bool  `json:"kept"`
	On           bool  `json:"on"`
	Loading      bool  `json:"loading"`
	Refusing     bool  `json:"refusing"`
	Bytes        int64 `json:"bytes"`
	Snapshot     int64 `json:"snapshot_bytes"`
	Age          int64 `json:"unsynced_ms"`
	LastSync     int64 `json:"last_sync"`     // Unix ms, 0 for never
	LastSnapshot int64 `json:"last_snapshot"` // Unix ms, 0 for never
	Failed       bool  `json:"snapshot_failed"`
	Snapshotting bool  `json:"snapshotting"`
	Failures     int64 `json:"failures"`
}

// stateWait is how long a page waits for what another node may have.
const stateWait = 500 * time.Millisecond

// state answers with what the page shows, and the seconds since the time in the query. If the query has a time for minutes, it
// answers with the minutes since then too.
func (d *Dashboard) state(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	since, _ := strconv.ParseInt(query.Get("since"), 10, 64)
	ctx, cancel := context.WithTimeout(r.Context(), stateWait)
	defer cancel()
	s, ready := d.Snapshot(), d.Ready()
	st := state{
		Version: s.Version, Uptime: int64(s.Uptime.Seconds()), Now: d.Now().UnixMilli(), MayWrite: d.mayWrite(r), Password: d.guarded(), Port: 6379,
		Cluster: d.Do.clusterOf(ctx, &s), Log: logOf(&s.Durability, s.Refusing),
	}
	st.Concerns = concerns(&s, &st.Cluster, ready)
	if ready != nil {
		st.NotReady = ready.Error()
	}
	if d.Port != nil {
		st.Port = d.Port()
	}
	st.Figures = d.Do.figures(ctx, since)
	if from, given := query["minutes"]; given {
		since, _ := strconv.ParseInt(from[0], 10, 64)
		st.Minutes = d.Do.byMinute(ctx, since)
	}
	st.Top = d.Do.top(ctx, 12)
	if over, given := query["over"]; given {
		st.Rules, st.More = d.Do.rules(ctx, over[0])
	}
	answer(w, http.StatusOK, st)
}

func logOf(s *stats.Durability, refusing bool) logState {
	return logState{
		Kept: s.Kept, On: s.Log, Loading: s.Loading, Refusing: refusing, Bytes: s.LogBytes, Snapshot: s.BaseBytes,
		Age: s.UnsyncedAge / 1e6, LastSync: s.LastSync / 1e6, LastSnapshot: s.LastSnapshot / 1e6,
		Failed: s.LastSnapshotFailed, Snapshotting: s.Snapshotting, Failures: int64(s.Failures),
	}
}

// top returns the keys that are denied most often now. In a cluster, the node that leads knows them.
func (do Commands) top(ctx context.Context, count int64, more ...string) []topKey {
	keys := []topKey{}
	v, err := do.ask(ctx, append([]string{"RL.TOP", "COUNT", decimal(count)}, more...)...)
	if err != nil {
		return keys
	}
	for _, e := range v.Elems {
		if len(e.Elems) == 2 {
			keys = append(keys, topKey{ID: idOf(e.Elems[0].Text), Text: rules.KeyText(e.Elems[0].Text), Count: e.Elems[1].Int})
		}
	}
	return keys
}
