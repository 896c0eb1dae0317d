package dashboard

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"time"

	"limitdb/internal/stats"
	"limitdb/observe"
	"limitdb/resp"
	"limitdb/rules"
)

// state is what the page shows, beside the answer to a question for a key.
type state struct {
	Version   string `json:"version"`
	Uptime    int64  `json:"uptime_s"`
	NotReady  string `json:"not_ready"` // why no decisions are made, "" if they are
	MayWrite  bool   `json:"may_write"`
	Password  bool   `json:"password"` // there is one
	Port      int    `json:"port"`
	Decisions uint64 `json:"decisions"` // since the start
	Limited   uint64 `json:"limited"`

	Samples []sample `json:"samples"`
	Rules   []rule   `json:"rules"`
	More    int      `json:"more_rules"` // that are not in Rules
	Checks  []checks `json:"checks"`
	Top     []topKey `json:"top"`

	KeysMax    int64  `json:"bytes_max"`
	Expired    uint64 `json:"expired"`
	Evicted    uint64 `json:"evicted"`
	ClientsMax int64  `json:"clients_max"`

	Log     logState     `json:"log"`
	Cluster clusterState `json:"cluster"`
}

// rule is a rule with its counters.
type rule struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Mode      string `json:"mode"`
	Allowed   uint64 `json:"allowed"`
	Limited   uint64 `json:"limited"`
	Shadow    uint64 `json:"shadow"` // would have been limited, by the rule in shadow mode or by its candidate
	Near      uint64 `json:"near"`
}

// maxRules is how many rules the page shows: those that limited most.
const maxRules = 100

// rulesOf returns the rules to show, in the order of the file, and how many more there are.
func rulesOf(all []observe.Rule) (shown []rule, more int) {
	at := make([]int, len(all))
	for i := range at {
		at[i] = i
	}
	if more = max(0, len(all)-maxRules); more > 0 {
		slices.SortStableFunc(at, func(i, j int) int {
			return cmp.Compare(all[j].Limited+all[j].ShadowLimited, all[i].Limited+all[i].ShadowLimited)
		})
		at = at[:maxRules]
		slices.Sort(at)
	}
	for _, i := range at {
		r := &all[i]
		shown = append(shown, rule{r.Namespace, r.Name, r.Mode, r.Allowed, r.Limited, r.ShadowLimited + r.CandidateLimited, r.Near})
	}
	return shown, more
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

type clusterState struct {
	On      bool   `json:"on"`
	ID      string `json:"id"`
	Leads   bool   `json:"leads"`
	Leader  string `json:"leader"`
	Term    uint64 `json:"term"`
	Behind  uint64 `json:"behind"`     // entries to apply
	Contact int64  `json:"contact_ms"` // since the leader was heard, -1 for never
}

// state answers with what has changed since the time in the query.
func (d *Dashboard) state(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	s := d.Snapshot()
	st := state{
		Version: s.Version, Uptime: int64(s.Uptime.Seconds()), MayWrite: d.mayWrite(r), Password: d.password() != "", Port: 6379,
		Decisions: s.Engine.Allowed + s.Engine.Limited, Limited: s.Engine.Limited,
		Samples: d.history.after(since), Top: d.top(r.Context()),
		KeysMax: s.MaxMemory, Expired: s.Engine.Expired, Evicted: s.Engine.Evicted, ClientsMax: s.Clients.Max,
		Log: logOf(&s.Durability, s.Refusing), Cluster: clusterOf(&s.Replication),
	}
	st.Rules, st.More = rulesOf(s.Rules)
	st.Checks = d.history.checks(s.Checks)
	if d.Port != nil {
		st.Port = d.Port()
	}
	if err := d.Ready(); err != nil {
		st.NotReady = err.Error()
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

func clusterOf(s *stats.Replication) clusterState {
	c := clusterState{On: s.On, ID: s.ID, Leads: s.Leads, Leader: s.Leader, Term: s.Term, Contact: s.LastContact}
	if s.LastContact > 0 {
		c.Contact = s.LastContact / 1e6
	}
	c.Behind = s.Committed - min(s.Committed, s.Applied)
	return c
}

// run runs a command and returns its reply.
func (d *Dashboard) run(ctx context.Context, args ...[]byte) (resp.Value, error) {
	b, err := d.Do(ctx, args...)
	if err != nil {
		return resp.Value{}, err
	}
	v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(b)), 1<<20)
	if err == nil {
		err = v.Err()
	}
	return v, err
}

// topWait is how long a page waits for the keys that are denied most often, which another node may have.
const topWait = 300 * time.Millisecond

// top returns the keys that are denied most often now. In a cluster, the node that leads knows them.
func (d *Dashboard) top(ctx context.Context) []topKey {
	keys := []topKey{}
	ctx, cancel := context.WithTimeout(ctx, topWait)
	defer cancel()
	v, err := d.run(ctx, []byte("RL.TOP"), []byte("COUNT"), []byte("12"))
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

// idOf returns a key as a word that has all its bytes.
func idOf(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// keyOf returns the key that a request names: by its bytes (id) or by its text (key).
func keyOf(id, text string) ([]byte, bool) {
	if id == "" {
		return []byte(text), text != ""
	}
	b, err := base64.RawURLEncoding.DecodeString(id)
	return b, err == nil && len(b) > 0
}

// key answers with what the server knows of a key.
func (d *Dashboard) key(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	key, ok := keyOf(q.Get("id"), q.Get("key"))
	if !ok {
		refuse(w, http.StatusBadRequest, "no key is given")
		return
	}
	v, err := d.run(r.Context(), []byte("RL.INFO"), key)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	info := map[string]any{"id": idOf(string(key)), "text": rules.KeyText(string(key)), "found": !v.Null}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if value := v.Elems[i+1]; value.Kind == ':' {
			info[v.Elems[i].Text] = value.Int
		} else {
			info[v.Elems[i].Text] = rules.KeyText(value.Text)
		}
	}
	answer(w, http.StatusOK, info)
}

// mode changes the mode of a rule.
func (d *Dashboard) mode(w http.ResponseWriter, r *http.Request) {
	var q struct{ Namespace, Rule, Mode string }
	if !readJSON(w, r, &q) {
		return
	}
	if d.SetMode == nil {
		refuse(w, http.StatusForbidden, "modes cannot be changed here")
		return
	}
	if err := d.SetMode(r.Context(), q.Namespace, q.Rule, q.Mode); err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	d.Log.Info("a rule's mode was changed on the dashboard", "addr", r.RemoteAddr, "namespace", q.Namespace, "rule", q.Rule, "mode", q.Mode)
	answer(w, http.StatusOK, struct{}{})
}

// reset forgets a key.
func (d *Dashboard) reset(w http.ResponseWriter, r *http.Request) {
	var q struct{ ID string }
	if !readJSON(w, r, &q) {
		return
	}
	key, ok := keyOf(q.ID, "")
	if !ok {
		refuse(w, http.StatusBadRequest, "no key is given")
		return
	}
	v, err := d.run(r.Context(), []byte("RL.RESET"), key)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	d.Log.Info("a key was reset on the dashboard", "addr", r.RemoteAddr, "key", string(resp.AppendQuoted(nil, key[:min(len(key), 128)])))
	answer(w, http.StatusOK, map[string]any{"found": v.Int > 0})
}
