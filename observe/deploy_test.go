package observe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDeployedNames checks that every metric that the dashboard and the alerts name exists.
func TestDeployedNames(t *testing.T) {
	page := scrape(t, sample())
	name := regexp.MustCompile(`\b(limitdb_[a-z_]+[a-z])\b`)
	for _, file := range []string{"grafana/limitdb.json", "prometheus/limitdb.rules.yml", "prometheus/limitdb.rules.test.yml"} {
		text, err := os.ReadFile(filepath.Join("..", "deploy", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, m := range found {
			family := strings.TrimSuffix(m, "_bucket")
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
