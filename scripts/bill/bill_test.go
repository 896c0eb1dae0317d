package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLicences finds and names the licence of everything that limitdb is built from.
func TestLicences(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "limitdb/cmd/limitdb").Output()
	if err != nil {
		t.Fatal(err)
	}
	info := &debug.BuildInfo{GoVersion: "go1.2.3"}
	for line := range strings.Lines(string(out)) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok && version != "" {
			info.Deps = append(info.Deps, &debug.Module{Path: path, Version: version})
		}
	}
	parts := partsOf([]*debug.BuildInfo{info, info})
	if err := findLicences("../..", parts); err != nil {
		t.Fatal(err)
	}
	licences := map[string]string{}
	for _, p := range parts {
		if licences[p.path] != "" {
			t.Errorf("%s stands there twice", p.path)
		}
		licences[p.path] = p.licence
	}
	for path, want := range map[string]string{
		charts:                               "MIT",
		standard:                             "BSD-3-Clause",
		"github.com/hashicorp/raft":          "MPL-2.0",
		"github.com/spf13/cobra":             "Apache-2.0",
		"github.com/tidwall/redcon":          "MIT",
		"github.com/zeebo/xxh3":              "BSD-2-Clause",
		"go.yaml.in/yaml/v3":                 "Apache-2.0 AND MIT",
		"golang.org/x/sys":                   "BSD-3-Clause",
		"github.com/hashicorp/go-msgpack/v2": "MIT",
	} {
		if licences[path] != want {
			t.Errorf("%s has licence %q, want %q", path, licences[path], want)
		}
	}
	notices := string(noticesOf(parts))
	for _, p := range parts {
		if !strings.Contains(notices, "\n"+p.path+" "+p.version+" ("+p.licence+")\n") || !strings.Contains(notices, p.text) {
			t.Errorf("the notices lack %s", p.path)
		}
	}
	if n := strings.Count(notices, "Copyright 2009 The Go Authors."); n != 1 {
		t.Errorf("a licence that several modules have stands there %d times", n)
	}
}

// The list has the version of the script that is embedded.
func TestCharts(t *testing.T) {
	script, err := os.ReadFile("../../dashboard/assets/uplot.js")
	if err != nil || !strings.Contains(string(script[:100]), "uPlot (v"+chartsVersion+")") {
		t.Errorf("dashboard/assets/uplot.js is not %s: %v", chartsVersion, err)
	}
}

func TestDocument(t *testing.T) {
	parts := []part{{path: "a.example/b", version: "v1.0.0", licence: "MIT"}, {path: standard, version: "1.26.0", licence: "BSD-3-Clause"}}
	at := time.Unix(1_732_320_000, 0).UTC()
	d := document("1.2.3", at, []binary{{"linux-amd64/limitdb", "00ff"}}, parts)
	if d.CreationInfo.Created != "2024-11-23T00:00:00Z" {
		t.Errorf("created %s", d.CreationInfo.Created)
	}
	// Every relationship is between two elements that are there, whose names are unique.
	ids := []string{d.SPDXID}
	for _, p := range d.Packages {
		ids = append(ids, p.SPDXID)
	}
	for _, f := range d.Files {
		ids = append(ids, f.SPDXID)
	}
	for i, id := range ids {
		if slices.Index(ids, id) != i {
			t.Errorf("%s twice", id)
		}
	}
	for _, r := range d.Relationships {
		if !slices.Contains(ids, r.Element) || !slices.Contains(ids, r.Related) {
			t.Errorf("%+v", r)
		}
	}
	if len(d.Relationships) != 4 || d.Packages[1].ExternalRefs[0].Locator != "pkg:golang/a.example/b@v1.0.0" || d.Files[0].Checksums[0].Value != "00ff" {
		t.Errorf("%+v", d)
	}
	again, _ := json.Marshal(document("1.2.3", at, []binary{{"linux-amd64/limitdb", "00ff"}}, parts))
	if text, _ := json.Marshal(d); string(text) != string(again) {
		t.Error("the same binaries give another list")
	}
	if other := document("1.2.3", at, []binary{{"linux-amd64/limitdb", "00fe"}}, parts); other.DocumentNamespace == d.DocumentNamespace {
		t.Error("another binary has the same name space")
	}
}
