package plant

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

const (
	// environ names the bug that a binary has.
	environ = "LIMITDB_PLANT"
	// chosen is the variable in the code that has its value.
	chosen = "plantChosen"
)

// plantAll returns the code of a file with all its bugs, and the name of its package. Each function that has
// bugs becomes several: as it is, and once with each bug. Another function in its place calls the one that is
// chosen.
func plantAll(code []byte, bugs []Bug) (planted []byte, name string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", code, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	variants := make([][]variant, len(file.Decls))
	for _, b := range bugs {
		at, v, err := b.plant(code, file)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", b.Name, err)
		}
		variants[at] = append(variants[at], v)
	}
	var out bytes.Buffer
	end := 0
	for i, d := range file.Decls {
		if len(variants[i]) == 0 {
			continue
		}
		out.Write(code[end : d.Pos()-1])
		out.WriteString(choose(code, d.(*ast.FuncDecl), variants[i]))
		end = int(d.End()) - 1
	}
	out.Write(code[end:])
	return out.Bytes(), file.Name.Name, nil
}

// variant is a function with a bug.
type variant struct {
	bug  string
	text string // with the function's own name
	at   int    // where that is in text
}

// plant puts the bug into the code of file, and returns the function that it is in.
func (b *Bug) plant(code []byte, file *ast.File) (at int, v variant, err error) {
	if n := bytes.Count(code, []byte(b.From)); n != 1 {
		return 0, v, fmt.Errorf("the file has the place %d times", n)
	}
	bad := bytes.Replace(code, []byte(b.From), []byte(b.To), 1)
	other, err := parser.ParseFile(token.NewFileSet(), "", bad, parser.SkipObjectResolution)
	if err != nil {
		return 0, v, err
	}
	if len(other.Decls) != len(file.Decls) {
		return 0, v, fmt.Errorf("a declaration is added or removed")
	}
	for i, d := range other.Decls {
		text := textOf(bad, d)
		if text == textOf(code, file.Decls[i]) {
			continue
		}
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Type.TypeParams != nil {
			return 0, v, fmt.Errorf("it is not in a function without type parameters")
		}
		return i, variant{b.Name, text, int(fn.Name.Pos() - fn.Pos())}, nil
	}
	return 0, v, fmt.Errorf("nothing changes")
}

// textOf returns the text of a node.
func textOf(code []byte, n ast.Node) string { return string(code[n.Pos()-1 : n.End()-1]) }

// choose returns a function like fn that calls fn or one of its variants, and all of these.
func choose(code []byte, fn *ast.FuncDecl, variants []variant) string {
	name := fn.Name.Name
	original := variant{"", textOf(code, fn), int(fn.Name.Pos() - fn.Pos())}
	text := func(n ast.Node) string { return textOf(code, n) }
	var b strings.Builder
	receiver := ""
	b.WriteString("func ")
	if fn.Recv != nil {
		fmt.Fprintf(&b, "(plantReceiver %s) ", text(fn.Recv.List[0].Type))
		receiver = "plantReceiver."
	}
	params, args := parameters(fn, text)
	fmt.Fprintf(&b, "%s(%s)", name, strings.Join(params, ", "))
	call := "%s%s__%d(" + strings.Join(args, ", ") + ")"
	if fn.Type.Results != nil {
		b.WriteString(" " + text(fn.Type.Results))
		call = "return " + call
	}
	fmt.Fprintf(&b, " {\n\tswitch %s {\n", chosen)
	for i, v := range variants {
		fmt.Fprintf(&b, "\tcase %q:\n\t\t"+call+"\n", v.bug, receiver, name, i+1)
	}
	fmt.Fprintf(&b, "\tdefault:\n\t\t"+call+"\n\t}\n}\n", receiver, name, 0)
	for i, v := range append([]variant{original}, variants...) {
		fmt.Fprintf(&b, "\n%s__%d%s\n", v.text[:v.at+len(name)], i, v.text[v.at+len(name):])
	}
	return b.String()
}

// parameters returns fn's parameters, each with a name, and the arguments that pass them on.
func parameters(fn *ast.FuncDecl, text func(ast.Node) string) (params, args []string) {
	for _, f := range fn.Type.Params.List {
		for range max(1, len(f.Names)) {
			name := fmt.Sprintf("plant%d", len(params))
			params = append(params, name+" "+text(f.Type))
			if _, variadic := f.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			args = append(args, name)
		}
	}
	return params, args
}
