package limitdb

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport is the import law: what each folder may import from this module. A folder includes those below
// it. Tests must keep to it as well, except in e2e, which drives the whole. A folder that is not listed may
// import nothing of ours.
var mayImport = map[string][]string{
	"state":       {},
	"limit":       {"state"},
	"resp":        {},
	"config":      {"internal"},
	"value":       {"resp"},
	"internal":    {"state"},
	"rules":       {"limit", "internal"},
	"transport":   {"internal"},
	"hold":        {},
	"groups":      {"resp", "limit", "engine", "hold", "internal"}, // see inside: only its tests need the engine
	"engine":      {"hold", "limit", "internal"},
	"persistence": {"engine", "limit", "internal"},
	"replication": {"engine", "limit", "internal"},
	"observe":     {"internal"},
	"dashboard":   {"observe", "resp", "rules", "internal"},
	"httpapi":     {"limit", "resp", "internal"},
	"envoyrls":    {"resp", "transport", "internal"},
	"script":      {},
	"known":       {"resp", "script", "value"},
	"simulate":    {"limit", "rules", "internal"},
	"docs":        {"limit", "simulate", "internal"},
	"deploy":      {}, // the tests of the chart, a module of their own
	"uplink":      {"transport", "internal"},
	"server":      {"engine", "groups", "hold", "value", "script", "known", "limit", "resp", "rules", "config", "transport", "uplink", "internal"},
	"scripts":     {},
	"bench":       {"resp", "limit", "engine"},
	"cmd":         {"bench", "config", "dashboard", "engine", "envoyrls", "groups", "httpapi", "internal", "limit", "observe", "persistence", "replication", "resp", "rules", "server", "simulate", "state", "transport", "uplink"},
	"e2e":         {"resp", "config", "engine", "groups", "internal", "rules", "server", "transport"},
}

// inside is the import law of packages inside a folder: what each may import from this module. Those in server know no
// session, and none imports server.
var inside = map[string][]string{
	"cmd/limitdb/cli": {"resp", "rules"},

	"groups":            {"resp"},
	"groups/across":     {"limit"},
	"engine/wait":       {"limit"},
	"replication/peers": {"internal/expiry"},
	"replication/redo":  {"internal/disk"},

	"server/auth":     {"config", "engine", "limit", "resp", "server/cluster", "server/handler", "server/redact", "server/spec", "server/users", "server/waiters"},
	"server/users":    {"internal/glob", "resp", "rules", "server/spec"},
	"server/memory":   {"engine", "resp", "server/clients", "server/handler", "server/keys", "server/spec"},
	"server/monitor":  {"resp", "server/clients"},
	"server/redact":   {"config", "resp", "server/spec"},
	"server/clients":  {"config", "engine", "internal/stats", "resp", "server/handler", "server/pubsub", "server/spec", "server/users", "transport"},
	"server/durable":  {"internal/stats", "resp", "server/handler", "server/spec"},
	"server/pause":    {"internal/clock", "server/spec", "server/waiters"},
	"server/forward":  {"resp", "server/waiters", "uplink"},
	"server/backups":  {"resp", "server/handler", "server/spec"},
	"server/history":  {"internal/stats", "resp", "server/handler", "server/request", "server/spec"},
	"server/latency":  {"config", "internal/stats", "resp", "server/handler", "server/spec"},
	"server/group":    {"engine", "internal/clock", "internal/pulse", "resp", "server/cluster", "server/durable", "server/handler", "uplink"},
	"server/guests":   {"config", "internal/clock", "server/auth", "server/clients", "server/pubsub", "server/users", "transport"},
	"server/scripts":  {"known", "script"},
	"server/pubsub":   {"engine", "internal/glob", "resp", "server/handler", "server/spec"},
	"server/slowlog":  {"config", "server/clients", "resp", "server/handler", "server/spec"},
	"server/request":  {"engine", "hold", "internal/english", "limit", "resp", "server/spec"},
	"server/spec":     {"internal/suggest", "resp"},
	"server/audit":    {"config", "internal/linefile", "internal/origin", "resp", "rules", "server/cluster", "server/redact"},
	"server/denials":  {"internal/origin", "limit"},
	"server/handler":  {"config", "engine", "internal/decisionlog", "internal/origin", "server/denials", "internal/glob", "internal/stats", "limit", "resp", "server/request", "server/spec", "server/users"},
	"server/values":   {"internal/journal", "limit", "resp", "server/handler", "server/spec", "value"},
	"server/keys":     {"engine", "internal/glob", "limit", "resp", "server/handler", "server/spec"},
	"server/info":     {"internal/stats", "resp"},
	"server/cluster":  {"engine", "internal/stats", "resp", "server/handler", "server/info", "server/keys", "server/spec", "uplink"},
	"server/rulebook": {"engine", "internal/clock", "internal/decisionlog", "internal/stats", "limit", "resp", "rules", "server/cluster", "server/denials", "server/handler", "server/keys", "server/limits", "server/request", "server/spec", "server/users"},
	"server/waiters":  {},
	"server/table":    {"internal/glob", "internal/stats", "resp", "server/handler", "server/spec"},
	"server/crossing": {"engine", "groups/across", "limit", "resp", "rules", "server/durable", "server/group", "server/handler", "server/request", "server/waiters"},
	"server/limits":   {"engine", "hold", "internal/decisionlog", "limit", "resp", "rules", "server/denials", "server/handler", "server/keys", "server/request", "server/spec"},
}

// onlyIn lists packages that only one folder may import.
var onlyIn = map[string]string{
	"limitdb/engine/table":                "engine",
	"limitdb/engine/wait":                 "engine",
	"github.com/hashicorp/raft":           "replication",
	"github.com/hashicorp/raft-boltdb":    "replication",
	"go.etcd.io/bbolt":                    "replication",
	"github.com/prometheus/client_golang": "observe",
	"github.com/tidwall/redcon":           "resp",
	"github.com/yuin/gopher-lua":          "script",
	"google.golang.org/grpc":              "bench",
	"github.com/envoyproxy":               "bench",
	"github.com/spf13/cobra":              "cmd bench",
	"go.yaml.in/yaml/v3":                  "rules",
}

const module = "limitdb"

func TestImports(t *testing.T) {
	seen, used := map[string]bool{}, map[[2]string]bool{}
	eachFile(t, func(file string, f *ast.File, _ *token.FileSet) {
		folder, _, inFolder := strings.Cut(filepath.ToSlash(file), "/")
		if !inFolder {
			return
		}
		seen[folder] = true
		law, known := mayImport[folder]
		room := path.Dir(file)
		inner, deep := inside[room]
		if folder == "server" && room != folder && !deep {
			t.Errorf("%s: folder %s has no line in the import law of server", file, room)
		}
		if !known {
			t.Errorf("%s: folder %s has no line in the import law", file, folder)
			return
		}
		for _, imp := range f.Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if p == module || strings.HasPrefix(p, module+"/") {
				whole := strings.TrimPrefix(p, module+"/")
				to, _, _ := strings.Cut(whole, "/")
				used[[2]string{folder, to}] = true
				if deep && !slices.Contains(inner, whole) && !strings.HasSuffix(file, "_test.go") {
					t.Errorf("%s imports %s: %s may import only %v", file, p, room, inner)
				}
				if to != folder && !slices.Contains(law, to) {
					t.Errorf("%s imports %s: %s may import only %v", file, p, folder, law)
				}
			}
			for other, home := range onlyIn {
				if (p == other || strings.HasPrefix(p, other+"/")) && !slices.Contains(strings.Fields(home), folder) && !strings.HasSuffix(file, "_test.go") {
					t.Errorf("%s imports %s: only %s may", file, p, home)
				}
			}
		}
	})
	for folder, all := range mayImport {
		if !seen[folder] {
			t.Errorf("the import law names %s, which has no Go file", folder)
		}
		for _, to := range all {
			if !used[[2]string{folder, to}] {
				t.Errorf("the import law lets %s import %s, which it does not", folder, to)
			}
		}
	}
}

// TestLimitIsStdlibOnly checks that the domain imports nothing from outside this module but the standard library.
func TestLimitIsStdlibOnly(t *testing.T) {
	eachFile(t, func(file string, f *ast.File, _ *token.FileSet) {
		if !strings.HasPrefix(file, "limit/") || strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, imp := range f.Imports {
			if strings.Contains(imp.Path.Value, ".") {
				t.Errorf("%s imports %s: limit/ has nothing from outside but the standard library", file, imp.Path.Value)
			}
		}
	})
}

// confined lists functions of the standard library, and the only folders in which they may occur.
var confined = []struct {
	names, folders []string
	why            string
}{
	{
		[]string{"time.Now", "time.Since"},
		[]string{"internal/clock", "cmd", "bench", "observe", "transport", "e2e"},
		"time is an argument below the edge of the program",
	},
	{
		[]string{"unsafe.Pointer", "unsafe.Add", "unsafe.Slice", "unsafe.SliceData", "unsafe.String", "unsafe.StringData"},
		[]string{"engine/table", "transport", "rules", "bench"},
		"only these handle memory by address",
	},
}

func TestConfinedFunctions(t *testing.T) {
	eachFile(t, func(file string, f *ast.File, fset *token.FileSet) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, _ := sel.X.(*ast.Ident)
			for _, c := range confined {
				if x != nil && slices.Contains(c.names, x.Name+"."+sel.Sel.Name) && !under(file, c.folders) {
					t.Errorf("%s: %s.%s: %s", fset.Position(n.Pos()), x.Name, sel.Sel.Name, c.why)
				}
			}
			return true
		})
	})
}

// TestNoMutableGlobals forbids package-level variables, except for errors and for what is never assigned:
// blank assertions and the linker's version.
func TestNoMutableGlobals(t *testing.T) {
	eachFile(t, func(file string, f *ast.File, fset *token.FileSet) {
		if strings.HasSuffix(file, "_test.go") || !strings.Contains(file, "/") {
			return
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for _, name := range v.Names {
					if name.Name == "_" || name.Name == "version" || strings.HasPrefix(strings.ToLower(name.Name), "err") || isTable(v) || isEmbedded(v) {
						continue
					}
					t.Errorf("%s: package-level variable %s", fset.Position(name.Pos()), name.Name)
				}
			}
		}
	})
}

// isTable reports whether v is a composite literal of an array, which is how Go code writes constant tables, or an array that a function
// literal computes.
func isTable(v *ast.ValueSpec) bool {
	for _, val := range v.Values {
		typ := ast.Expr(nil)
		switch val := val.(type) {
		case *ast.CompositeLit:
			typ = val.Type
		case *ast.CallExpr:
			if f, ok := val.Fun.(*ast.FuncLit); ok && f.Type.Results != nil {
				typ = f.Type.Results.List[0].Type
			}
		}
		if a, ok := typ.(*ast.ArrayType); !ok || a.Len == nil {
			return false
		}
	}
	return len(v.Values) > 0
}

// isEmbedded reports whether v has files that are embedded, which nothing can change.
func isEmbedded(v *ast.ValueSpec) bool {
	t, ok := v.Type.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := t.X.(*ast.Ident)
	return ok && x.Name == "embed" && t.Sel.Name == "FS"
}

// TestNoExitBelowMain checks that only programs end the process.
func TestNoExitBelowMain(t *testing.T) {
	eachFile(t, func(file string, f *ast.File, fset *token.FileSet) {
		if strings.HasSuffix(file, "_test.go") || under(file, []string{"bench/envoy", "cmd", "e2e", "scripts"}) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "os" && sel.Sel.Name == "Exit" || x.Name == "log" && strings.HasPrefix(sel.Sel.Name, "Fatal")) {
					t.Errorf("%s: %s.%s below main: return an error", fset.Position(n.Pos()), x.Name, sel.Sel.Name)
				}
			}
			return true
		})
	})
}

func under(file string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(file, f+"/") })
}

// eachFile parses every Go file of the module.
func eachFile(t *testing.T, fn func(file string, f *ast.File, fset *token.FileSet)) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || (strings.HasPrefix(d.Name(), ".") && d.Name() != ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(file) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		fn(filepath.ToSlash(file), f, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
