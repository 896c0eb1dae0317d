package gen

import (
	"flag"
	"os"
	"strings"
	"testing"

	"limitdb/limit"
)

// scripts/docs writes the files anew; so does go test ./docs/gen -run Generated -update.
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
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Fill(string(text), map[string]string{"sizes": sizes})
	if err != nil {
		t.Fatal(err)
	}
	current(t, page, want)
}

// Every algorithm has its part in the page.
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

// current writes a file, or checks that it is what it should be.
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
