package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
)

// tried is what the rules of a namespace make of a request.
type tried struct {
	Answer  *numbers   `json:"answer"` // of the check
	Rule    string     `json:"rule"`   // that decides, "" if none limits the request
	Ignored []string   `json:"ignored"`
	More    int64      `json:"more"` // rules that are not in Rules
	Rules   []answered `json:"rules"`
}

// answered is what one rule makes of a request.
type answered struct {
	Name    string       `json:"name"`
	Mode    string       `json:"mode"`
	Matches bool         `json:"matches"`
	Why     string       `json:"why"`  // it does not match
	From    string       `json:"from"` // the plan or the override that its limit is from
	Limits  []limitReply `json:"limits"`

	field, wants string // that keep it from matching
}

// limitReply is what one limit of a rule would answer.
type limitReply struct {
	Role    string   `json:"role"` // enforce, shadow, candidate
	Limit   string   `json:"limit"`
	Cost    int64    `json:"cost"`
	ID      string   `json:"id"`             // of its key
	Held    int64    `json:"held,omitempty"` // on the page of a caller: how much is held
	Numbers *numbers `json:"numbers"`
}

// maxTried is how many rules an answer has.
const maxTried = "100"

// try answers with what the rules of a namespace make of a request, which takes nothing.
func (d *Dashboard) try(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Namespace string
		Fields    [][2]string
		Cost      int64
	}
	if !readJSON(w, r, &q) {
		return
	}
	t, err := d.Do.explain(r.Context(), q.Namespace, q.Fields, q.Cost)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	answer(w, http.StatusOK, t)
}

func (do Commands) explain(ctx context.Context, namespace string, pairs [][2]string, cost int64) (*tried, error) {
	words := append([]string{"RL.RULES", "EXPLAIN", namespace, decimal(int64(len(pairs)))}, flat(pairs)...)
	v, err := do.ask(ctx, append(words, "COST", decimal(cost), "COUNT", maxTried)...)
	if err != nil {
		return nil, err
	}
	f := fieldsOf(v)
	t := &tried{Answer: numbersOf(ints(f["decision"])), Rule: f.text("rule"), Ignored: texts(f["ignored"]), Rules: []answered{}}
	for _, e := range f["explained"].Elems {
		t.Rules = append(t.Rules, answeredOf(fieldsOf(e)))
	}
	t.More = max(0, f.int("rules")-int64(len(t.Rules)))
	return t, nil
}

func answeredOf(f fields) answered {
	a := answered{
		Name: f.text("name"), Mode: f.text("mode"), Matches: f.int("applies") != 0, Why: f.text("why"), From: f.text("from"), Limits: []limitReply{},
		field: f.text("field"), wants: f.text("wants"),
	}
	for _, e := range f["limits"].Elems {
		l := fieldsOf(e)
		a.Limits = append(a.Limits, limitReply{l.text("role"), l.text("limit"), l.int("cost"), idOf(l.text("key")), 0, numbersOf(ints(l["decision"]))})
	}
	return a
}

// errNotMatched is returned for a caller whose request cannot be guessed.
var errNotMatched = errors.New("the fields of its requests are not known: try a request with all of them")

// maxGuesses is how many fields of a request are guessed.
const maxGuesses = 8

// ofCaller returns what the rules make of a request of a rule's caller, of which only the fields of the key are known. For the fields that the rule wants
// to match it takes the first values that do, and returns all fields.
func (do Commands) ofCaller(ctx context.Context, c *ruleCaller) (*tried, [][2]string, error) {
	pairs := append([][2]string{}, c.Fields...)
	for range maxGuesses {
		t, err := do.explain(ctx, c.Namespace, pairs, 1)
		if err != nil {
			return nil, nil, err
		}
		field, wants := t.lacks(c.Name)
		if field == "" {
			return t, pairs, nil
		}
		pairs = append(pairs, [2]string{field, example(wants)})
	}
	return nil, nil, errNotMatched
}

// lacks returns the field that a request lacks for a rule, and the pattern that it must match; "" if it lacks none.
func (t *tried) lacks(rule string) (field, wants string) {
	for _, a := range t.Rules {
		if a.Name == rule && !a.Matches {
			return a.field, a.wants
		}
	}
	return "", ""
}

// example returns a text that matches a pattern of a rule, or an address of its networks.
func example(pattern string) string {
	if list, ok := strings.CutPrefix(pattern, "["); ok {
		first := list[:max(0, strings.IndexAny(list, "/,]"))]
		if _, err := netip.ParseAddr(first); err == nil {
			return first
		}
	}
	return strings.NewReplacer(`\\`, `\`, `\*`, "*", "*", "").Replace(pattern)
}
