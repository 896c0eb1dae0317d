package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The rules and the cases on the page for users of Envoy are as the commands that it names take them.
func TestEnvoyPage(t *testing.T) {
	page, err := os.ReadFile("../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	var set *Set
	files, sets, cases := 0, 0, 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		switch text := []byte(block[1]); {
		case strings.HasPrefix(block[1], "domain:"):
			files++
			if set, err = ParseEnvoy(text); err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
		case strings.HasPrefix(block[1], "version:"):
			sets++
			if _, err := Parse(text, nil); err != nil {
				t.Errorf("%v in\n%s", err, text)
			}
		case strings.HasPrefix(block[1], "- {namespace:"):
			cases++
			all, err := ParseCases(text)
			if err != nil || len(all) == 0 {
				t.Fatalf("%v in\n%s", err, text)
			}
			for _, f := range set.Run(all, monday) {
				t.Errorf("case at line %d: want %s, got %s", f.Line, f.Want(), f.Got)
			}
		}
	}
	if files != 1 || sets != 1 || cases != 1 {
		t.Errorf("%d files, %d rules and %d cases are on the page", files, sets, cases)
	}
}
