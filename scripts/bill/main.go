// Command bill says what binaries of limitdb are made of, from what the Go toolchain has recorded in them.
//
//	bill -version 1.2.3 -date 1732320000 -spdx FILE -notices FILE [-root DIR] BINARY …
//
// FILE of -spdx gets a list in SPDX 2.3, which names the binaries by their paths below DIR; that of -notices gets the
// licences of all parts, which must go with the binaries. It runs in the root of the source, and reads licences from the
// module cache. The same binaries give the same bytes.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "the version of limitdb")
	date := flag.Int64("date", 0, "when it was made, in Unix seconds")
	list := flag.String("spdx", "", "write the list to this `file`")
	notices := flag.String("notices", "", "write the licences to this `file`")
	root := flag.String("root", ".", "the `folder` of the binaries")
	flag.Parse()
	if err := run(*version, time.Unix(*date, 0).UTC(), *list, *notices, *root, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bill:", err)
		os.Exit(1)
	}
}

func run(version string, at time.Time, list, notices, root string, names []string) error {
	var binaries []binary
	var infos []*debug.BuildInfo
	for _, name := range names {
		path := filepath.Join(root, name)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		binaries = append(binaries, binary{filepath.ToSlash(name), hex.EncodeToString(sum[:])})
		infos = append(infos, info)
	}
	parts := partsOf(infos)
	if err := findLicences(".", parts); err != nil {
		return err
	}
	text, err := json.MarshalIndent(document(version, at, binaries, parts), "", " ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(list, append(text, '\n'), 0o644), os.WriteFile(notices, noticesOf(parts), 0o644))
}

// A binary is a file of the release, with its SHA-256 in hexadecimal.
type binary struct{ name, sum string }

// A part is a module that is linked into a binary, Go's standard library, or the script that the dashboard embeds.
type part struct {
	path, version string
	licence       string // its name in SPDX
	text          string // the licence itself
}

// Parts that are no modules.
const (
	standard      = "stdlib"
	charts        = "uplot"
	chartsVersion = "1.6.32"
	chartsLicence = "dashboard/assets/uplot-LICENSE.txt"
)

// partsOf returns what the binaries are made of, in the order of paths.
func partsOf(infos []*debug.BuildInfo) []part {
	all := []part{{path: charts, version: chartsVersion}}
	for _, info := range infos {
		all = append(all, part{path: standard, version: strings.TrimPrefix(info.GoVersion, "go")})
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			all = append(all, part{path: m.Path, version: m.Version})
		}
	}
	order := func(a, b part) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version)) }
	slices.SortFunc(all, order)
	return slices.Compact(all)
}

// findLicences reads the licence of each part from the module cache, from Go's own folder, and from the source of limitdb
// in root.
func findLicences(root string, parts []part) error {
	for i := range parts {
		p := &parts[i]
		if p.path == charts {
			text, err := os.ReadFile(filepath.Join(root, chartsLicence))
			if err != nil {
				return err
			}
			p.text, p.licence = strings.TrimSpace(string(text)), nameOf(string(text))
			continue
		}
		where := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", p.path)
		if p.path == standard {
			where = exec.Command("go", "env", "GOROOT")
		}
		dir, err := where.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		text, err := licenceIn(string(bytes.TrimSpace(dir)))
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		p.text, p.licence = text, nameOf(text)
		if p.licence == "" {
			return fmt.Errorf("%s has a licence that this program does not know", p.path)
		}
	}
	return nil
}

// licenceIn returns the text of the licences and notices in a folder.
func licenceIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	known := regexp.MustCompile(`^(?i)(licen[cs]e|copying|notice)([-.].*)?$`)
	var all []string
	for _, e := range entries {
		if e.Type().IsRegular() && known.MatchString(e.Name()) {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return "", err
			}
			all = append(all, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
		}
	}
	if len(all) == 0 {
		return "", fs.ErrNotExist
	}
	return strings.Join(all, "\n\n"), nil
}

// nameOf returns the name in SPDX of the licence with this text, or "" if it is none of those that the parts have.
func nameOf(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, ",", "")), " ")
	var names []string
	for _, known := range [...]struct{ name, has, lacks string }{
		{"Apache-2.0", "Apache License Version 2.0", ""},
		{"BSD-2-Clause", "Redistribution and use in source and binary forms", "Neither the name"},
		{"BSD-3-Clause", "Neither the name", ""},
		{"MIT", "Permission is hereby granted free of charge", ""},
		{"MPL-2.0", "Mozilla Public License", ""},
	} {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(known.has)) || known.lacks != "" && strings.Contains(text, known.lacks) {
			continue
		}
		names = append(names, known.name)
	}
	return strings.Join(names, " AND ")
}

// noticesOf returns the licences of all parts. A text that several have in common stands there once.
func noticesOf(parts []part) []byte {
	var b bytes.Buffer
	b.WriteString("limitdb contains the following software, unchanged. Its source is what \"go mod download PATH@VERSION\" fetches;\nthat of stdlib is part of Go, and that of uplot in npm.\n")
	done := map[string]bool{}
	for _, p := range parts {
		if done[p.text] {
			continue
		}
		done[p.text] = true
		fmt.Fprintf(&b, "\n%s\n", strings.Repeat("=", 80))
		for _, same := range parts {
			if same.text == p.text {
				fmt.Fprintf(&b, "%s %s (%s)\n", same.path, same.version, same.licence)
			}
		}
		fmt.Fprintf(&b, "\n%s\n", p.text)
	}
	return b.Bytes()
}
