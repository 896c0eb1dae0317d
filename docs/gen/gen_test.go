package gen

import (
	"cmp"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"limitdb/limit"
	"limitdb/simulate"
)

// scripts/docs writes the files; so does go test ./docs/gen -run Generated -update.
var update = flag.Bool("update", false, "write docs/algorithms.md's numbers and its plot")

const page = "../algorithms.md"

func TestGeneratedPlot(t *testing.T) {
	svg, err := Plot()
	if err != nil {
		t.Fatal(err)
	}
	current(t, "../algorithms.svg", svg)
}

func TestGeneratedNumbers(t *testing.T) {
	sizes, err := SizeTable()
	if err != nil {
		t.Fatal(err)
	}
	errors, err := ErrorTable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Fill(string(text), map[string]string{"sizes": sizes, "errors": errors})
	if err != nil {
		t.Fatal(err)
	}
	current(t, page, want)
}

// LOG agrees with itself and never exceeds its limit. The requests of each kind of traffic are in order of
// time.
func TestMeasure(t *testing.T) {
	for _, traffic := range Traffics() {
		if !slices.IsSortedFunc(traffic.Requests, func(a, b simulate.Request) int { return cmp.Compare(a.Time, b.Time) }) {
			t.Errorf("%s is not in order", traffic.Name)
		}
	}
	errors, denied, err := Measure(edge(), "100/m", []string{"LOG 100/m", "FIXED 100/m"})
	if err != nil {
		t.Fatal(err)
	}
	if e := errors[0]; e.Over != 0 || e.Under != 0 || e.Blind != 0 || e.Excess != 0 || denied == 0 {
		t.Errorf("LOG against itself: %+v, %d denied", e, denied)
	}
	// At each edge FIXED admits 100 on either side, and LOG 100 of all 240.
	if e := errors[1]; e.Excess != 100 || e.Over < e.Requests/3 {
		t.Errorf("FIXED at the edge: %+v", e)
	}
}

func TestPercent(t *testing.T) {
	for _, test := range []struct {
		part, whole int
		want        string
	}{{0, 7, "0"}, {1, 1_000_000, "<0.001 %"}, {3, 100_000, "0.003 %"}, {5, 1000, "0.500 %"}, {1, 80, "1.3 %"}, {7, 7, "100.0 %"}} {
		if got := percent(test.part, test.whole); got != test.want {
			t.Errorf("percent(%d, %d) = %s, want %s", test.part, test.whole, got, test.want)
		}
	}
	if got := grouped(1_002_003); got != "1 002 003" {
		t.Errorf("grouped: %s", got)
	}
}

// The page has a part for every algorithm.
func TestPageIsComplete(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range limit.Algorithms() {
		for _, has := range []string{"\n### " + a.String() + "\n", "\n| " + a.String() + " |"} {
			if !strings.Contains(string(text), has) {
				t.Errorf("docs/algorithms.md has no %q", has)
			}
		}
	}
}

func TestFill(t *testing.T) {
	const before = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
	got, err := Fill(before, map[string]string{"x": "new\n"})
	if want := "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb\n"; got != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"y", "x -->\nold\n<!-- end"} {
		if _, err := Fill(before, map[string]string{name: ""}); err == nil {
			t.Errorf("%q has a place", name)
		}
	}
}

// current writes a file, or checks that its contents are current.
func current(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not what the functions say (%v): scripts/docs", path, err)
	}
}
