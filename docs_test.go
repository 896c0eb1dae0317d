package limitdb

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the Markdown files of the repository.
func pages(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if filepath.Ext(file) == ".md" {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// anchors returns the anchors of a page's headings.
func anchors(page string) map[string]bool {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		found[strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

// TestLinks follows every relative link of every page to its file and its heading.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	for _, file := range pages(t) {
		dir := filepath.Dir(file)
		if dir == filepath.Join("docs", "commands") && filepath.Base(file) != "README.md" {
			continue // a part of docs/commands.md, whose links are checked there
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), "x"), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			to := file
			if m[1] != "" {
				to = filepath.Join(dir, m[1])
			}
			page, err := os.ReadFile(to)
			if err != nil {
				t.Errorf("%s: link %s: %v", file, m[0], err)
			} else if m[2] != "" && !anchors(string(page))[m[2]] {
				t.Errorf("%s: link %s: %s has no such heading", file, m[0], to)
			}
		}
	}
}

// TestDocsIndex checks that docs/README.md has a line for each page of docs and of the root.
func TestDocsIndex(t *testing.T) {
	index, err := os.ReadFile(filepath.Join("docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range pages(t) {
		rel, _ := filepath.Rel("docs", file)
		inDocs := filepath.Dir(file) == "docs" || filepath.Dir(file) == "."
		if inDocs && filepath.Base(file) != "README.md" && !strings.Contains(string(index), "("+rel+")") {
			t.Errorf("docs/README.md has no line for %s", file)
		}
	}
}

// TestSubcommands checks that each subcommand that a page for users names is in docs/commands.md. Other pages may name what is not there any more.
func TestSubcommands(t *testing.T) {
	reference, err := os.ReadFile(filepath.Join("docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	parents, known := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#### (\S+) (\S+)$`).FindAllStringSubmatch(string(reference), -1) {
		parents[m[1]], known[m[1]+" "+m[2]] = true, true
	}
	named := regexp.MustCompile("`(?:redis-cli )?([A-Z.]+) ([A-Z-]+)[ `]")
	checked := 0
	for _, file := range pages(t) {
		if filepath.Dir(file) != "docs" && file != "README.md" || file == filepath.Join("docs", "decisions.md") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !parents[m[1]] {
				continue
			}
			checked++
			if !known[m[1]+" "+m[2]] && m[2] != "HELP" {
				t.Errorf("%s: there is no %s %s", file, m[1], m[2])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d subcommands were found", checked)
	}
}
