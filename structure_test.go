package limitdb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxMethods is the most methods that a type of the module may have.
const maxMethods = 40

// ceilings are the most files, methods of one type, and arrows between files that run back up, that a folder may have. They only
// fall.
var ceilings = map[string]struct{ files, methods, up int }{
	"server":      {25, 40, 13},
	"engine":      {36, 40, 22},
	"limit":       {36, 25, 6},
	"replication": {40, 26, 13},
	"persistence": {28, 31, 0},
}

// TestStructure counts what a newcomer has to hold in mind, and checks that it does not grow. With -v it prints the figures, the files in their
// order, and the arrows that run back up, each with the names that it is about.
func TestStructure(t *testing.T) {
	packages, exports, err := modulePackages()
	if err != nil {
		t.Fatal(err)
	}
	lines, code := 0, 0
	for _, p := range packages {
		for _, f := range p.GoFiles {
			l, c, err := count(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			lines, code = lines+l, code+c
		}
		folder := strings.TrimPrefix(p.ImportPath, "limitdb/")
		most, ok := ceilings[folder]
		if !ok {
			continue
		}
		all, methods, of, err := look(p, exports)
		if err != nil {
			t.Fatal(err)
		}
		order, back := up(all)
		t.Logf("%s: %d files, %d methods of %s, %d arrows between files, of which %d run back up", folder, len(p.GoFiles), methods, of, len(all), len(back))
		t.Logf("%s from the top down: %s", folder, strings.Join(order, " "))
		for _, a := range back {
			t.Logf("%s: %s uses %s: %s", folder, filepath.Base(a.from), filepath.Base(a.to), strings.Join(a.names, " "))
		}
		if len(p.GoFiles) > most.files || methods > most.methods || len(back) > most.up {
			t.Errorf("%s: %d files, %d methods of %s, %d arrows that run back up; it may have %d, %d and %d", folder, len(p.GoFiles), methods, of, len(back), most.files, most.methods, most.up)
		}
	}
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d lines of Go that are not tests, %d without comments and blank lines; %d words in ARCHITECTURE.md", lines, code, len(bytes.Fields(text)))
}

// TestMethods counts the methods of every type of the module.
func TestMethods(t *testing.T) {
	packages, _, err := modulePackages()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		counts, err := methods(p)
		if err != nil {
			t.Fatal(err)
		}
		for of, n := range counts {
			if n > maxMethods {
				t.Errorf("%s.%s has %d methods; a type may have %d", strings.TrimPrefix(p.ImportPath, "limitdb/"), of, n, maxMethods)
			}
		}
	}
}

// methods counts the methods that a package declares for each of its types.
func methods(p listed) (map[string]int, error) {
	counts := map[string]int{}
	fset := token.NewFileSet()
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			counts[receiver(fn.Recv.List[0].Type)]++
		}
	}
	return counts, nil
}

// receiver returns the name of a receiver's type, which may be a pointer and have parameters.
func receiver(of ast.Expr) string {
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.ParenExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// A listed package is what go list says of one.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// modulePackages returns the packages of this module, and the files with the export data of all packages that they import.
func modulePackages() (own []listed, exports map[string]string, err error) {
	out, err := exec.Command("go", "list", "-pgo=off", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...").Output()
	if err != nil {
		return nil, nil, err
	}
	exports = map[string]string{}
	for from := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := from.Decode(&p); err == io.EOF {
			return own, exports, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			own = append(own, p)
		}
	}
}

// count returns the lines of a file, and those that have code.
func count(name string) (lines, code int, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, err
	}
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	has := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return bytes.Count(text, []byte("\n")), len(has), nil
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // the scanner's own
		}
		first := file.Line(pos)
		for i := range strings.Count(lit, "\n") + 1 {
			has[first+i] = true
		}
	}
}

// look returns the arrows between the files of a package, and the type with the most methods.
func look(p listed, exports map[string]string) (all []arrow, methods int, of string, err error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, 0, "", err
		}
		files = append(files, f)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := conf.Check(p.ImportPath, fset, files, info)
	if err != nil {
		return nil, 0, "", err
	}
	for _, name := range pkg.Scope().Names() {
		if t, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && !t.IsAlias() {
			if named, ok := t.Type().(*types.Named); ok && named.NumMethods() > methods {
				methods, of = named.NumMethods(), name
			}
		}
	}
	return arrows(fset, pkg, info), methods, of, nil
}

// An arrow runs from a file to another one whose names it uses.
type arrow struct {
	from, to string
	names    []string // in the order of the alphabet
}

// arrows returns the arrows between the files of a package. Fields and methods count as names of the file that declares them.
func arrows(fset *token.FileSet, pkg *types.Package, info *types.Info) []arrow {
	seen := map[[2]string]map[string]bool{}
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg || !global(pkg, obj) {
			continue
		}
		a := [2]string{fset.Position(id.Pos()).Filename, fset.Position(obj.Pos()).Filename}
		if a[0] == a[1] {
			continue
		}
		if seen[a] == nil {
			seen[a] = map[string]bool{}
		}
		seen[a][obj.Name()] = true
	}
	var out []arrow
	for a, names := range seen {
		out = append(out, arrow{a[0], a[1], slices.Sorted(maps.Keys(names))})
	}
	slices.SortFunc(out, func(a, b arrow) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return out
}

// global reports whether an object can be named in another file of its package.
func global(pkg *types.Package, obj types.Object) bool {
	switch o := obj.(type) {
	case *types.Var:
		return o.IsField() || o.Parent() == pkg.Scope()
	case *types.Func:
		return true
	}
	return obj.Parent() == pkg.Scope()
}

// up returns the files in a good order, users above what they use, and the arrows that run back up then. The order is the
// greedy one of Eades, Lin and Smyth, "A fast and effective heuristic for the feedback arc set problem" (1993).
func up(all []arrow) (order []string, back []arrow) {
	out, in := map[string]map[string]bool{}, map[string]map[string]bool{}
	add := func(m map[string]map[string]bool, a, b string) {
		if m[a] == nil {
			m[a] = map[string]bool{}
		}
		if b != "" {
			m[a][b] = true
		}
	}
	for _, a := range all {
		add(out, a.from, a.to)
		add(in, a.to, a.from)
		add(out, a.to, "")
		add(in, a.from, "")
	}
	var top, bottom []string
	remove := func(f string) {
		for t := range out[f] {
			delete(in[t], f)
		}
		for t := range in[f] {
			delete(out[t], f)
		}
		delete(out, f)
		delete(in, f)
	}
next:
	for len(out) > 0 {
		var files []string
		for f := range out {
			files = append(files, f)
		}
		slices.Sort(files)
		best := files[0]
		for _, f := range files {
			switch {
			case len(out[f]) == 0:
				bottom = append(bottom, f)
				remove(f)
				continue next
			case len(in[f]) == 0:
				top = append(top, f)
				remove(f)
				continue next
			case len(out[f])-len(in[f]) > len(out[best])-len(in[best]):
				best = f
			}
		}
		top = append(top, best)
		remove(best)
	}
	slices.Reverse(bottom)
	place := map[string]int{}
	for i, f := range append(top, bottom...) {
		place[f] = i
		order = append(order, filepath.Base(f))
	}
	for _, a := range all {
		if place[a.from] > place[a.to] {
			back = append(back, a)
		}
	}
	return order, back
}
