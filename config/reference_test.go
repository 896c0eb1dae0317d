package config

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// go test ./config -run Generated -update writes the files again.
var update = flag.Bool("update", false, "write the files that are generated from the table")

func TestGeneratedFiles(t *testing.T) {
	r, _ := New()
	for path, want := range map[string][]byte{
		"../deploy/limitdb.conf":   r.AppendExample(nil),
		"../docs/configuration.md": r.AppendMarkdown(nil),
	} {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what the table says (%v): go test ./config -run Generated -update", path, err)
		}
	}
}

// TestExampleSaysTheDefaults removes the comment signs in front of the example's directives, and loads it.
func TestExampleSaysTheDefaults(t *testing.T) {
	r, _ := New()
	before := r.Get("*")
	directive := regexp.MustCompile(`^# ([a-z-]+) (.*)$`)
	var file strings.Builder
	found := 0
	for line := range strings.Lines(string(r.AppendExample(nil))) {
		if m := directive.FindStringSubmatch(strings.TrimSpace(line)); m != nil && r.find(m[1]) != nil {
			line = line[2:]
			found++
		}
		file.WriteString(line)
	}
	// A line of a directive's description could look like a directive.
	if found != len(r.list) {
		t.Fatalf("%d directives in the example, want %d", found, len(r.list))
	}
	if err := r.Load(Sources{Args: []string{"-"}, Stdin: strings.NewReader(file.String())}); err != nil {
		t.Fatal(err)
	}
	if after := r.Get("*"); !slices.Equal(before, after) {
		t.Errorf("%v, want %v", after, before)
	}
}

// TestTable checks what the readers of the table rely on.
func TestTable(t *testing.T) {
	r, _ := New()
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	var groups []string
	for _, e := range r.Reference() {
		if !name.MatchString(e.Name) {
			t.Errorf("%s is no name", e.Name)
		}
		if e.Doc == "" || !strings.HasSuffix(e.Doc, ".") || strings.ContainsAny(e.Doc, "\n`") {
			t.Errorf("%s: its meaning must be a line that ends with a full stop: %q", e.Name, e.Doc)
		}
		if len(groups) == 0 || groups[len(groups)-1] != e.Group {
			if slices.Contains(groups, e.Group) {
				t.Errorf("the group %s stands in two places", e.Group)
			}
			groups = append(groups, e.Group)
		}
		if e.Environment != "LIMITDB_"+strings.ToUpper(strings.ReplaceAll(e.Name, "-", "_")) {
			t.Errorf("%s has the variable %s", e.Name, e.Environment)
		}
		if e.Secret != (e.Name == "requirepass" || e.Name == "http-password" || e.Name == "user") {
			t.Errorf("%s: Secret is %v", e.Name, e.Secret)
		}
	}
}

// TestUnit loads the configuration in the systemd unit: its command line and, without the comment sign, its
// environment.
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("../deploy/limitdb.service")
	if err != nil {
		t.Fatal(err)
	}
	var src Sources
	for line := range strings.Lines(string(unit)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "#")
		if v, ok := strings.CutPrefix(line, "ExecStart="); ok {
			src.Args = strings.Fields(v)[1:]
		}
		if v, ok := strings.CutPrefix(line, "Environment="); ok {
			src.Environ = append(src.Environ, v)
		}
	}
	src.ReadFile = readMap(map[string]string{"/etc/limitdb/limitdb.conf": "", "%d/password": "pw\n"})
	r, s := New()
	if err := r.Load(src); err != nil {
		t.Fatal(err)
	}
	if s.Supervised.Get() != "systemd" || s.RequirePass.Get() != "pw" {
		t.Errorf("supervised %q, password %q", s.Supervised.Get(), s.RequirePass.Get())
	}
}
