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

// rulePage is what the page of a rule shows.
type rulePage struct {
	rule
	Limit     string   `json:"limit"`
	Key       []string `json:"key"`
	Candidate string   `json:"candidate"`
	Match     []string `json:"match"` // fields, each followed by its pattern
	Except    []string `json:"except"`
	Plans     []string `json:"plans"` // plans, each followed by its limit
	Overrides int64    `json:"overrides"`
	Cost      string   `json:"cost"`       // the field with the cost
	Weights   []string `json:"weights"`    // fields, each followed by a pattern and a weight
	LimitFrom string   `json:"limit_from"` // the field with the limit that a request brings
	AtMost    string   `json:"at_most"`
	InFlight  string   `json:"in_flight"` // how many requests may be in flight
	ShardBy   string   `json:"shard_by"`  // the field by which its keys are divided among groups
	Text      string   `json:"text"`      // as it is written
	Source    string   `json:"source"`    // file, or command
	Callers   []topKey `json:"callers"`
	Minutes   []minute `json:"minutes"`
}

// minute is what a rule did in a minute.
type minute struct {
	At      int64 `json:"at"` // its beginning, Unix ms
	Allowed int64 `json:"allowed"`
	Limited int64 `json:"limited"`
	Shadow  int64 `json:"shadow"`
}

// ruleList answers with all rules, but for their counters.
func (d *Dashboard) ruleList(w http.ResponseWriter, r *http.Request) {
	all := []rulePage{}
	namespaces, err := d.Do.ask(r.Context(), "RL.RULES", "LIST")
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	for _, ns := range texts(namespaces) {
		if len(all) >= maxListed {
			break
		}
		list, err := d.Do.ask(r.Context(), "RL.RULES", "LIST", ns)
		if err != nil {
			continue // it is gone
		}
		for _, e := range list.Elems {
			all = append(all, listed(ns, fieldsOf(e)))
		}
	}
	for i := range all[:min(len(all), maxCharts)] {
		all[i].Minutes = d.Do.minutes(r.Context(), all[i].Namespace, all[i].Name)
	}
	answer(w, http.StatusOK, map[string]any{"rules": all[:min(len(all), maxListed)], "more": max(0, len(all)-maxListed)})
}

// maxCharts is how many rules of the list have a chart.
const maxCharts = 50

// minutes asks what a rule did in each of the last minutes.
func (do Commands) minutes(ctx context.Context, namespace, name string) []minute {
	all := []minute{}
	v, err := do.ask(ctx, "RL.RULES", "HISTORY", namespace, name)
	if err != nil {
		return all
	}
	for _, e := range v.Elems {
		if n := ints(e); len(n) >= 6 {
			all = append(all, minute{n[0], n[1], n[3], n[4] + n[5]})
		}
	}
	return all
}

// maxListed is how many rules the list of the page has.
const maxListed = 1000

// listed returns a rule of RL.RULES LIST.
func listed(namespace string, f fields) rulePage {
	return rulePage{
		rule:  rule{Namespace: namespace, Name: f.text("name"), Mode: f.text("mode")},
		Limit: f.text("limit"), Key: texts(f["key"]), Candidate: f.text("candidate"),
		Match: texts(f["match"]), Except: texts(f["except"]), Plans: texts(f["plans"]), Overrides: f.int("overrides"), Cost: f.text("cost"), Weights: texts(f["weights"]), LimitFrom: f.text("limit_from"), AtMost: f.text("at_most"), InFlight: f.text("in_flight"), ShardBy: f.text("shard_by"), Callers: []topKey{}, Minutes: []minute{},
	}
}

// rulePage answers with one rule.
func (d *Dashboard) rulePage(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.URL.Query().Get("ns"), r.URL.Query().Get("name")
	page, err := d.Do.ruleNamed(r.Context(), namespace, name)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	answer(w, http.StatusOK, page)
}

func (do Commands) ruleNamed(ctx context.Context, namespace, name string) (*rulePage, error) {
	list, err := do.ask(ctx, "RL.RULES", "LIST", namespace)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.Elems, func(e resp.Value) bool { return fieldsOf(e).text("name") == name })
	if i < 0 {
		return nil, errNoRule
	}
	p := listed(namespace, fieldsOf(list.Elems[i]))
	text, err := do.ask(ctx, "RL.RULES", "GET", namespace, name)
	if err != nil {
		return nil, err
	}
	p.Text = text.Text
	if counts, err := do.ask(ctx, "RL.RULES", "STATS", namespace); err == nil && i < len(counts.Elems) {
		p.rule = counted(fieldsOf(counts.Elems[i]))
	}
	p.Callers = do.top(ctx, maxHits, "NS", namespace, "RULE", name)
	p.Minutes = do.minutes(ctx, namespace, name)
	if info, err := do.ask(ctx, "INFO", "limiter"); err == nil {
		p.Source = "command"
		if strings.Contains(info.Text, "rules_source:file") {
			p.Source = "file"
		}
	}
	return &p, nil
}

// change is a change of a rule: how, and the rule's new text if that is needed.
type change struct {
	Namespace, Name, Text string
	// How is set, try (the new limit as a candidate beside the one in force), adopt (the candidate becomes the limit) or drop (the candidate goes).
	How string
}

// errHow refuses a change of another kind.
var errHow = errors.New("a change is set, try, adopt or drop")

// changed returns the text of the rule after a change.
func (do Commands) changed(ctx context.Context, q *change) (next string, err error) {
	if q.How == "set" {
		return q.Text, nil
	}
	now, err := do.ask(ctx, "RL.RULES", "GET", q.Namespace, q.Name)
	if err != nil {
		return "", err
	}
	var text []byte
	switch q.How {
	case "try":
		text, err = rules.Try([]byte(now.Text), []byte(q.Text))
	case "adopt", "drop":
		text, err = rules.Settle([]byte(now.Text), q.How == "adopt")
	default:
		err = errHow
	}
	return string(text), err
}

// checkRule answers with what a change of a rule would do, and changes nothing.
func (d *Dashboard) checkRule(w http.ResponseWriter, r *http.Request) { d.changeRule(w, r, "VALIDATE") }

// setRule changes a rule.
func (d *Dashboard) setRule(w http.ResponseWriter, r *http.Request) { d.changeRule(w, r, "SET") }

func (d *Dashboard) changeRule(w http.ResponseWriter, r *http.Request, command string) {
	var q change
	if !readJSON(w, r, &q) {
		return
	}
	next, err := d.Do.changed(r.Context(), &q)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	v, err := d.Do.ask(r.Context(), "RL.RULES", command, q.Namespace, q.Name, next)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	if command == "SET" {
		d.Log.Info("a rule was changed on the dashboard", "addr", r.RemoteAddr, "namespace", q.Namespace, "rule", q.Name, "how", q.How)
	}
	f := fieldsOf(v)
	answer(w, http.StatusOK, map[string]any{"text": next, "added": texts(f["added"]), "changed": texts(f["changed"]), "removed": texts(f["removed"]), "restarted": texts(f["restarted"])})
}

// mode changes the mode of a rule.
func (d *Dashboard) mode(w http.ResponseWriter, r *http.Request) {
	var q struct{ Namespace, Rule, Mode string }
	if !readJSON(w, r, &q) {
		return
	}
	if _, err := d.Do.ask(r.Context(), "RL.RULES", "MODE", q.Namespace, q.Rule, q.Mode); err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	d.Log.Info("a rule's mode was changed on the dashboard", "addr", r.RemoteAddr, "namespace", q.Namespace, "rule", q.Rule, "mode", q.Mode)
	answer(w, http.StatusOK, struct{}{})
}
