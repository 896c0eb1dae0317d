package observe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDeployedNames checks that every metric that the dashboard and the alerts name exists.
func TestDeployedNames(t *testing.T) {
	page := scrape(t, sample())
	name := regexp.MustCompile(`\b(limitdb_[a-z_]+[a-z])\b`)
	for _, file := range []string{"grafana/limitdb.json", "prometheus/limitdb.rules.yml", "prometheus/limitdb.rules.test.yml", "prometheus/limitdb.rules.hours.test.yml"} {
		text, err := os.ReadFile(filepath.Join("..", "deploy", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, m := range found {
			family := strings.TrimSuffix(strings.TrimSuffix(m, "_bucket"), "_count")
			if !strings.Contains(page, "\n# TYPE "+family+" ") && !strings.HasPrefix(page, "# TYPE "+family+" ") {
				t.Errorf("%s: there is no metric %s", file, m)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "deploy", "grafana", "limitdb.json"))
	if err != nil || !json.Valid(text) {
		t.Errorf("the dashboard is no JSON: %v", err)
	}
}

// Each alert leads to its part of the runbook, which has no other parts.
func TestRunbook(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join("..", "deploy", "prometheus", "limitdb.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	book, err := os.ReadFile(filepath.Join("..", "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	var alerts, parts []string
	for _, m := range regexp.MustCompile(`(?s)- alert: (\w+)\n.*?runbook_url: docs/runbook.md#(\w+)\n`).FindAllStringSubmatch(string(rules), -1) {
		alerts = append(alerts, m[1])
		if m[2] != strings.ToLower(m[1]) {
			t.Errorf("%s leads to %s", m[1], m[2])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(book), -1) {
		parts = append(parts, m[1])
	}
	if n := strings.Count(string(rules), "- alert: "); n != len(alerts) || !slices.Equal(alerts, parts) {
		t.Errorf("%d alerts: %v\nparts: %v", n, alerts, parts)
	}
}
