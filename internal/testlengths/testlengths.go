// Package testlengths knows every constant that the code compares lengths with, so that tests draw lengths from
// around them: that is where the code changes its mind. It reads the code itself, so a constant that is new, or has
// another value, needs no change here. Only tests use it.
package testlengths

import (
	"go/ast"
	"go/build"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folders have the code that keeps, bounds or moves what clients send.
func folders() []string {
	return []string{
		"engine", "engine/table", "internal/disk", "internal/journal", "known", "limit", "persistence", "replication", "resp", "script", "server",
		"server/handler", "server/keys", "server/limits", "server/rulebook", "server/values", "transport", "uplink", "value",
	}
}

// Lengths are the constants, in ascending order, each once.
type Lengths []int

// Least is the least constant that counts. Any generator draws shorter lengths anyway.
const Least = 8

// around is how far from a constant a length may be for what it is kept with: a tag, an expiry, a revision, the head
// of a record, a short key.
const around = 48

// Read returns the constants of the code from Least to most.
func Read(t testing.TB, most int) Lengths {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var all Lengths
	for _, folder := range folders() {
		found, err := read(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			t.Fatalf("%s has no constants", folder)
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(n int) bool { return n > most })
	slices.Sort(all)
	return slices.Compact(all)
}

// moduleRoot returns the folder of go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fs.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// read returns the constants of a folder's package: those that have a name, and those that something is compared with.
func read(dir string) (Lengths, error) {
	set := token.NewFileSet()
	files, err := parse(set, dir)
	if err != nil {
		return nil, err
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	// Other packages are not read, so most of the code has errors of types. Constants have none.
	conf := types.Config{Importer: none{}, Error: func(error) {}}
	_, _ = conf.Check(dir, set, files, info)
	var all Lengths
	add := func(v constant.Value, of types.Type) {
		if b, ok := of.(*types.Basic); !ok || v == nil || b.Info()&types.IsInteger == 0 || b.Kind() == types.UntypedRune || b.Kind() == types.Byte {
			return // a character, or one of the numbers of a type of their own
		}
		if n, exact := constant.Int64Val(constant.ToInt(v)); exact && n >= Least && n < 1<<31 {
			all = append(all, int(n))
		}
	}
	for _, o := range info.Defs {
		if c, ok := o.(*types.Const); ok {
			add(c.Val(), c.Type())
		}
	}
	for expr, tv := range info.Types {
		if op, ok := expr.(*ast.BinaryExpr); ok && tv.Value == nil && compares(op.Op) {
			for _, side := range []ast.Expr{op.X, op.Y} {
				add(info.Types[side].Value, info.Types[side].Type)
			}
		}
	}
	return all, nil
}

func compares(op token.Token) bool {
	switch op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
		return true
	}
	return false
}

// parse parses the files of a folder that are built here, but for tests.
func parse(set *token.FileSet, dir string) (files []*ast.File, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if built, err := build.Default.MatchFile(dir, name); err != nil || !built {
			continue
		}
		f, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// none finds no package but unsafe.
type none struct{}

func (none) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	return nil, fs.ErrNotExist
}

// Draw returns a length from 0 to most, mostly around one of the constants. intN returns a number from 0 to n-1.
func (l Lengths) Draw(intN func(n int) int, most int) int {
	some, _ := slices.BinarySearch(l, most+around+1)
	if some == 0 || intN(8) == 0 {
		return intN(min(most, 300) + 1)
	}
	n := l[intN(some)]
	switch intN(4) {
	case 0: // next to it
		n += intN(5) - 2
	case 1: // far enough for anything that it is kept with
		n += intN(2*around+1) - around
	default: // with a head
		n += intN(24) - 20
	}
	return min(max(n, 0), most)
}

// Each calls fn with every length from 0 to most that is at most by away from a constant, in ascending order.
func (l Lengths) Each(by, most int, fn func(n int)) {
	next := 0
	for _, at := range l {
		for n := max(next, at-by); n <= min(at+by, most); n++ {
			fn(n)
			next = n + 1
		}
	}
}
