package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPromtool has promtool check the alerts, run their tests, and lint the server's metrics.
func TestPromtool(t *testing.T) {
	t.Parallel()
	promtool := need(t, "promtool")
	dir := filepath.Join("..", "deploy", "prometheus")
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(dir, "limitdb.rules.yml")},
		{"test", "rules", filepath.Join(dir, "limitdb.rules.test.yml"), filepath.Join(dir, "limitdb.rules.hours.test.yml")},
	} {
		if r := run(t, "", promtool, args...); r.Code != 0 {
			t.Errorf("promtool %s: %s%s", strings.Join(args, " "), r.Stdout, r.Stderr)
		}
	}
	p := start(t, "--metrics-top-keys", "3")
	c := dial(t, p.Addr)
	for range 4 {
		c.do("RL.TAKE", "user:\xff", "GCRA", "1/h")
	}
	page := get("http://" + p.HTTPAddr + "/metrics")
	if !strings.Contains(page, "limitdb_key_denials{key=\"user:\uFFFD\"} 3\n") {
		t.Error("the key that is denied most is not there")
	}
	if r := run(t, page, promtool, "check", "metrics"); r.Code != 0 || r.Stderr != "" {
		t.Errorf("promtool check metrics: %s%s", r.Stdout, r.Stderr)
	}
}

// TestPrometheus has Prometheus scrape a server, load the alerts, and evaluate every expression of the Grafana
// dashboard.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	p := start(t, "--http-password", password)
	c := dial(t, p.Addr)
	for range 20 {
		c.do("RL.TAKE", "user:1", "GCRA", "10/h")
	}
	c.do("RL.RULES", "LOAD", "version: 1\nnamespaces: {shop: [{name: all, limit: 5/h}, {name: new, limit: 1/h, mode: shadow}]}")
	for range 20 {
		c.do("RL.CHECK", "shop", "0")
	}
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join("..", "deploy", "prometheus", "limitdb.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n"+
		"  - {job_name: limitdb, static_configs: [{targets: [%q]}], basic_auth: {username: prometheus, password: %q}}\n", rules, p.HTTPAddr, password)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + freePort(t)
	runProxy(t, addr, "prometheus", "--config.file="+conf, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	query := func(expr string) (n int, problem string) {
		_, _, body := ask(t, "http://"+addr+"/api/v1/query?query="+url.QueryEscape(expr))
		var answer struct {
			Status, Error string
			Data          struct{ Result []any }
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Status != "success" {
			return 0, fmt.Sprintf("%v %s", err, body)
		}
		return len(answer.Data.Result), ""
	}
	eventually(t, "Prometheus has scraped twice", func() bool {
		n, _ := query(`rate(limitdb_decisions_total{job="limitdb",result="limited"}[1m])`)
		return n == 1
	})
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text2, err := os.ReadFile(filepath.Join("..", "deploy", "grafana", "limitdb.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text2, &dashboard); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "1m", "$job", "limitdb", "$instance", ".*")
	// These have no value on a standalone server, without maxmemory, errors and blocks.
	empty := map[string]bool{"Groups that a node leads": true, "Decisions of each group": true, "Keys of each group": true, "Errors": true, "Blocks": true, "Memory of keys": true, "Who leads": true, "Entries to apply": true, "Last heard of the leader": true}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			n, problem := query(fill.Replace(target.Expr))
			if problem != "" {
				t.Errorf("%s: %s: %s", panel.Title, target.Expr, problem)
			} else if n == 0 && !empty[panel.Title] {
				t.Errorf("%s: %s has no value", panel.Title, target.Expr)
			}
		}
	}
	_, _, body := ask(t, "http://"+addr+"/api/v1/rules")
	if strings.Contains(body, `"health":"err"`) || !strings.Contains(body, "LimitdbDown") {
		t.Errorf("the alerts do not work: %.2000s", body)
	}
}
