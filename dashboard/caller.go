package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"limitdb/resp"
	"limitdb/rules"
)

// caller is what the server knows of a key: of one that a client named, or that a rule counts a caller under.
type caller struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	Found bool   `json:"found"`
	// Of a key that was found.
	Algorithm string `json:"algorithm,omitempty"`
	Level     int64  `json:"level"`
	ResetsIn  int64  `json:"resets_in_ms"`
	Memory    int64  `json:"memory"`
	// Holds is how many holds are live, and Held how much they hold. HeldIDs are those of them that the server has listed.
	Holds   int64    `json:"holds"`
	Held    int64    `json:"held"`
	HeldIDs []heldID `json:"held_ids,omitempty"`
	// Rule is nil for a key that a client named. Rules has what all rules make of a request of the caller, and Fields that request; if Rules is nil,
	// NoRules says why.
	Rule    *ruleCaller `json:"rule,omitempty"`
	Rules   *tried      `json:"rules,omitempty"`
	Fields  [][2]string `json:"fields,omitempty"`
	NoRules string      `json:"no_rules,omitempty"`
	// Limit is that of a key that a client named, as of its last denial. Its answer is nil if it is not known.
	Limit   string   `json:"limit,omitempty"`
	Answer  *numbers `json:"answer,omitempty"`
	Denials []denial `json:"denials"`
	// NoDenials says why there are none, "" if there may be some.
	NoDenials string `json:"no_denials,omitempty"`
}

// heldID is a hold that is live.
type heldID struct {
	Text   string `json:"text"`
	Amount int64  `json:"amount"`
	Left   int64  `json:"left_ms"` // of its time
	Limit  string `json:"limit"`
}

// maxHolds is how many ids of a key the page asks for, and maxHeldLimits of how many limits of a caller it asks what they hold.
const (
	maxHolds      = "200"
	maxHeldLimits = 20
)

// holds returns the holds of a key that are live, of the first that the server lists.
func (do Commands) holds(ctx context.Context, key string) []heldID {
	v, err := do.ask(ctx, "RL.HOLDS", key, "COUNT", maxHolds)
	if err != nil {
		return nil
	}
	var all []heldID
	for _, e := range v.Elems {
		if len(e.Elems) >= 5 && e.Elems[1].Text == "held" {
			all = append(all, heldID{rules.KeyText(e.Elems[0].Text), e.Elems[2].Int, e.Elems[3].Int, e.Elems[4].Text})
		}
	}
	return all
}

// heldBy notes how much is held of each limit of a caller.
func (do Commands) heldBy(ctx context.Context, t *tried) {
	asked := 0
	for i := range t.Rules {
		for j := range t.Rules[i].Limits {
			l := &t.Rules[i].Limits[j]
			key, ok := keyOf(l.ID)
			if !ok || asked == maxHeldLimits {
				continue
			}
			asked++
			if v, err := do.ask(ctx, "RL.INFO", key); err == nil && !v.Null {
				l.Held = fieldsOf(v).int("held")
			}
		}
	}
}

// ruleCaller is a caller of a rule.
type ruleCaller struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Fields    [][2]string `json:"fields"`
	Candidate bool        `json:"candidate"`
	// Unknown says why Fields are not known, "" if they are.
	Unknown string `json:"unknown,omitempty"`
}

// numbers are the five integers of a decision, as RL.TAKE replies. Waits are in ms, -1 for never.
type numbers struct {
	Limited bool  `json:"limited"`
	Limit   int64 `json:"limit"`
	Left    int64 `json:"left"`
	Wait    int64 `json:"wait_ms"`
	Reset   int64 `json:"reset_ms"`
}

// numbersOf returns the five integers, nil if n has fewer.
func numbersOf(n []int64) *numbers {
	if len(n) < 5 {
		return nil
	}
	return &numbers{n[0] != 0, n[1], n[2], n[3], n[4]}
}

// denial is a denied request.
type denial struct {
	Time  int64  `json:"time"` // Unix ms, of the last one
	Since int64  `json:"since"`
	Times int64  `json:"times"`
	ID    string `json:"id"`
	Text  string `json:"text"`
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
	Cost  int64  `json:"cost"`
	Left  int64  `json:"left"`
	Wait  int64  `json:"wait_ms"`
	Why   string `json:"why"`
	Addr  string `json:"addr"`
}

// denials asks for the last denials, of all keys if words name none.
func (do Commands) denials(ctx context.Context, words ...string) ([]denial, error) {
	v, err := do.ask(ctx, append([]string{"RL.DENIALS"}, words...)...)
	all := []denial{}
	for _, e := range v.Elems {
		f := fieldsOf(e)
		one := denial{
			Time: f.int("time"), Since: f.int("since"), Times: max(1, f.int("times")), ID: idOf(f.text("key")), Text: rules.KeyText(f.text("key")), Rule: f.text("rule"),
			Limit: f.text("limit"), Cost: f.int("cost"), Left: f.int("left"), Wait: f.int("wait"), Why: f.text("why"), Addr: f.text("addr"),
		}
		all = append(all, one)
	}
	return all, err
}

// lastDenials answers with the last denials of all keys.
func (d *Dashboard) lastDenials(w http.ResponseWriter, r *http.Request) {
	all, err := d.Do.denials(r.Context(), "COUNT", maxDenials)
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	answer(w, http.StatusOK, map[string]any{"denials": all, "problem": problem})
}

// maxDenials is how many denials the page of a caller shows, and the list of the last ones.
const maxDenials = "50"

// askedKey returns the key that a request names. If it names none, askedKey has answered, and returns false.
func askedKey(w http.ResponseWriter, r *http.Request) (key string, ok bool) {
	var q struct{ ID string }
	if !readJSON(w, r, &q) {
		return "", false
	}
	if key, ok = keyOf(q.ID); !ok {
		refuse(w, http.StatusBadRequest, "no key is given")
	}
	return key, ok
}

// key answers with what the server knows of a key.
func (d *Dashboard) key(w http.ResponseWriter, r *http.Request) {
	key, ok := askedKey(w, r)
	if !ok {
		return
	}
	c, err := d.Do.caller(r.Context(), key)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	answer(w, http.StatusOK, c)
}

func (do Commands) caller(ctx context.Context, key string) (*caller, error) {
	v, err := do.ask(ctx, "RL.INFO", key)
	if err == nil && v.Null && isCut(key) {
		key = do.whole(ctx, key)
		v, err = do.ask(ctx, "RL.INFO", key)
	}
	if err != nil {
		return nil, err
	}
	f := fieldsOf(v)
	c := &caller{
		ID: idOf(key), Text: rules.KeyText(key), Found: !v.Null,
		Algorithm: f.text("algorithm"), Level: f.int("level"), ResetsIn: f.int("resets_in"), Memory: f.int("memory"),
		Holds: f.int("holds"), Held: f.int("held"),
	}
	if c.Holds > 0 {
		c.HeldIDs = do.holds(ctx, key)
	}
	if c.Rule = do.ruleOf(ctx, key); c.Rule != nil {
		if c.NoRules = c.Rule.Unknown; c.NoRules == "" {
			if c.Rules, c.Fields, err = do.ofCaller(ctx, c.Rule); err != nil {
				c.NoRules = err.Error()
			} else {
				do.heldBy(ctx, c.Rules)
			}
		}
	}
	if c.Denials, err = do.denials(ctx, key, "COUNT", maxDenials); err != nil {
		c.NoDenials = err.Error()
	}
	if c.Rule == nil && len(c.Denials) > 0 {
		c.Limit = c.Denials[0].Limit
		if v, err := do.ask(ctx, append([]string{"RL.PEEK", key}, strings.Fields(c.Limit)...)...); err == nil {
			c.Answer = numbersOf(ints(v))
		}
	}
	return c, nil
}

// whole returns the key that RL.TOP has cut, or the cut one if it is not found in time. Two keys that begin alike are told apart by a hash,
// which only the server can make: it is the only one that begins so, or none.
func (do Commands) whole(ctx context.Context, cut string) string {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	found := cut
	for cursor := "0"; ; {
		v, err := do.ask(ctx, "SCAN", cursor, "MATCH", escape(cut[:cutAt])+"*", "COUNT", scanStep)
		if err != nil || len(v.Elems) != 2 || ctx.Err() != nil {
			return cut
		}
		for _, key := range texts(v.Elems[1]) {
			if found != cut && key != found {
				return cut
			}
			found = key
		}
		if cursor = v.Elems[0].Text; cursor == "0" {
			return found
		}
	}
}

// ruleOf returns the caller of a rule that a key is of, nil for other keys.
func (do Commands) ruleOf(ctx context.Context, key string) *ruleCaller {
	of, ok := rules.ParseKey([]byte(key))
	if !ok {
		return nil
	}
	c := &ruleCaller{Namespace: of.Namespace, Name: of.Rule, Candidate: of.Candidate, Fields: [][2]string{}}
	names, _, err := do.keyFields(ctx, of.Namespace, of.Rule)
	switch {
	case err != nil:
		c.Unknown = err.Error()
	case of.Hashed:
		c.Unknown = "its values are long, so that its key has only a hash of them"
	case len(names) != len(of.Values):
		c.Unknown = "the rule has changed since, and identifies its callers by other fields"
	default:
		for i, name := range names {
			c.Fields = append(c.Fields, [2]string{name, of.Values[i]})
		}
	}
	return c
}

var errNoRule = errors.New("there is no such rule any more")

// keyFields returns the fields that identify a rule's callers, and which of them is a hash tag in their keys, from 1; 0 if none is.
func (do Commands) keyFields(ctx context.Context, namespace, name string) (names []string, tagged int, err error) {
	v, err := do.ask(ctx, "RL.RULES", "LIST", namespace)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range v.Elems {
		if f := fieldsOf(e); f.text("name") == name {
			names = texts(f["key"])
			return names, 1 + slices.Index(names, f.text("shard_by")), nil
		}
	}
	return nil, 0, errNoRule
}

// reset forgets a key, or all that a rule knows of a caller.
func (d *Dashboard) reset(w http.ResponseWriter, r *http.Request) {
	key, ok := askedKey(w, r)
	if !ok {
		return
	}
	words := []string{"RL.RESET", key}
	if c := d.Do.ruleOf(r.Context(), key); c != nil {
		if c.Unknown != "" {
			refuse(w, http.StatusConflict, "this caller cannot be reset here: "+c.Unknown)
			return
		}
		words = append([]string{"RL.RULES", "RESET", c.Namespace, c.Name}, flat(c.Fields)...)
	}
	v, err := d.Do.ask(r.Context(), words...)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	d.Log.Info("a key was reset on the dashboard", "addr", r.RemoteAddr, "key", string(resp.AppendQuoted(nil, []byte(key[:min(len(key), 128)]))))
	answer(w, http.StatusOK, map[string]any{"found": v.Int > 0})
}

// flat returns pairs as words.
func flat(pairs [][2]string) []string {
	var words []string
	for _, p := range pairs {
		words = append(words, p[0], p[1])
	}
	return words
}
