package script

import (
	"fmt"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

const (
	// maxDepth is how deeply a script's syntax may be nested: the compiler recurses.
	maxDepth = 1000
	tooDeep  = "chunk has too many syntax levels"
	// maxSearch bounds the time to compile a script. It is how many constants the compiler looks at: for each constant,
	// it searches all constants of the function.
	maxSearch = 6_000_000
	// maxFunctions is how many functions a script may have. The compiler begins each with 17 kB.
	maxFunctions = 1000
)

// The functions that count memory, and one that mends a difference of the library. No script can name them, because
// Lua's names have no blanks.
const (
	fnConcat  = " concat"  // a .. b
	fnTable   = " table"   // {…}
	fnEmpty   = " empty"   // {}
	fnKey     = " key"     // {[k] = v}
	fnClosure = " closure" // function … end
	fnStore   = " store"   // t[k] = v
	fnNumber  = " number"  // a bound of a loop
)

// rewriter puts a call in the place of everything in a syntax tree that takes memory:
//
//	a .. b .. c         →  concat(a, b, c)
//	{}                  →  empty()
//	{…}                 →  table({…}), with the number of its named fields if it has many
//	{[k] = v}           →  table({[key(k)] = v}), unless k is a string
//	function … end      →  closure(function … end)
//	t.k = v             →  store(t, "k", v)
//	t[i], x = f()       →  local o, k, v, w = t, i, f(); x = w; store(o, k, v)
//	for i = 1, n        →  for i = 1, number(n), since n may be a string that reads as a number
//
// Several names are assigned in this way too, because the library gets "a, b = b, a" of local variables wrong.
type rewriter struct {
	depth     int
	constants map[string]bool // names and literals of the function
	searched  int
	functions int
	dots, arg bool // the function names ... and arg
	err       error
}

// constant counts what the compiler does to find a name or a literal.
func (r *rewriter) constant(e ast.Expr, name string) {
	r.constants[name] = true
	if r.searched += len(r.constants); r.searched > maxSearch && r.err == nil {
		r.err = fmt.Errorf("%d: too many constants", e.Line())
	}
}

// function rewrites a function.
func (r *rewriter) function(stmts []ast.Stmt) []ast.Stmt {
	if r.functions++; r.functions > maxFunctions && r.err == nil {
		r.err = fmt.Errorf(" more than %d functions", maxFunctions)
	}
	outer := r.constants
	r.constants = map[string]bool{}
	stmts = r.block(stmts)
	r.constants = outer
	return stmts
}

// expression rewrites a function in an expression. The library gives a function with ... in its parameters, but not in its
// body, a table named arg with every call. A function that does not name arg gets a use of ... and so no table, and
// another one pays for it.
func (r *rewriter) expression(e *ast.FunctionExpr) {
	dots, arg := r.dots, r.arg
	r.dots, r.arg = false, false
	e.Stmts = r.function(e.Stmts)
	if e.ParList.HasVargs && !r.dots {
		var first ast.Stmt
		if r.arg {
			first = &ast.FuncCallStmt{Expr: call(e, fnTable, at(e, &ast.IdentExpr{Value: "arg"}), at(e, &ast.NumberExpr{Value: "32"}))}
		} else {
			first = &ast.LocalAssignStmt{Names: []string{" arg"}, Exprs: []ast.Expr{single(at(e, &ast.Comma3Expr{}))}}
		}
		first.SetLine(e.Line())
		e.Stmts = append([]ast.Stmt{first}, e.Stmts...)
	}
	r.dots, r.arg = dots, arg || r.arg // arg of an outer function may be what an inner one names
}

// enter counts one level of nesting; the caller calls leave at its end.
func (r *rewriter) enter(line int) bool {
	r.depth++
	if r.depth > maxDepth && r.err == nil {
		r.err = fmt.Errorf("%d: %s", line, tooDeep)
	}
	return r.err == nil
}

func (r *rewriter) leave() { r.depth-- }

// block rewrites statements. "local function f" becomes "local f; f = …", so that f can call itself.
func (r *rewriter) block(stmts []ast.Stmt) []ast.Stmt {
	out := make([]ast.Stmt, 0, len(stmts))
	for _, s := range stmts {
		if l, ok := s.(*ast.LocalAssignStmt); ok && len(l.Names) == 1 && len(l.Exprs) == 1 {
			if f, ok := l.Exprs[0].(*ast.FunctionExpr); ok {
				l.Exprs = nil
				assign := &ast.AssignStmt{Lhs: []ast.Expr{at(s, &ast.IdentExpr{Value: l.Names[0]})}, Rhs: []ast.Expr{f}}
				assign.SetLine(s.Line())
				out = append(out, s)
				s = assign
			}
		}
		out = append(out, r.stmt(s))
	}
	return out
}

func (r *rewriter) stmt(s ast.Stmt) ast.Stmt {
	defer r.leave()
	if !r.enter(s.Line()) {
		return s
	}
	switch s := s.(type) {
	case *ast.AssignStmt:
		return r.assign(s)
	case *ast.LocalAssignStmt:
		r.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		s.Expr = r.expr(s.Expr)
	case *ast.DoBlockStmt:
		s.Stmts = r.block(s.Stmts)
	case *ast.WhileStmt:
		s.Condition, s.Stmts = r.expr(s.Condition), r.block(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition, s.Stmts = r.expr(s.Condition), r.block(s.Stmts)
	case *ast.IfStmt:
		s.Condition, s.Then, s.Else = r.expr(s.Condition), r.block(s.Then), r.block(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step = r.number(s.Init), r.number(s.Limit), r.number(s.Step)
		s.Stmts = r.block(s.Stmts)
	case *ast.GenericForStmt:
		r.exprs(s.Exprs)
		s.Stmts = r.block(s.Stmts)
	case *ast.FuncDefStmt:
		return r.define(s)
	case *ast.ReturnStmt:
		r.exprs(s.Exprs)
	case *ast.GotoStmt, *ast.LabelStmt: // the library has them, Lua 5.1 has not
		if r.err == nil {
			r.err = fmt.Errorf("%d: goto is not in Lua 5.1", s.Line())
		}
	}
	return s
}

// number rewrites a bound of a loop.
func (r *rewriter) number(e ast.Expr) ast.Expr {
	switch e.(type) {
	case nil, *ast.NumberExpr:
		return e
	}
	return call(e, fnNumber, single(r.expr(e)))
}

// define rewrites "function a.b:c(…)" as an assignment.
func (r *rewriter) define(s *ast.FuncDefStmt) ast.Stmt {
	target := s.Name.Func
	if s.Name.Receiver != nil {
		target = at(s, &ast.AttrGetExpr{Object: s.Name.Receiver, Key: at(s, &ast.StringExpr{Value: s.Name.Method})})
		s.Func.ParList.Names = append([]string{"self"}, s.Func.ParList.Names...)
	}
	out := &ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{s.Func}}
	out.SetLine(s.Line())
	out.SetLastLine(s.LastLine())
	return r.assign(out)
}

// assign rewrites an assignment whose targets may be fields of tables.
func (r *rewriter) assign(s *ast.AssignStmt) ast.Stmt {
	r.exprs(s.Rhs)
	for _, target := range s.Lhs {
		switch target := target.(type) {
		case *ast.AttrGetExpr:
			target.Object, target.Key = r.expr(target.Object), r.expr(target.Key)
		case *ast.IdentExpr:
			r.constant(target, target.Value)
			r.arg = r.arg || target.Value == "arg"
		}
	}
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		if f, ok := s.Lhs[0].(*ast.AttrGetExpr); ok {
			return store(s, f.Object, f.Key, single(s.Rhs[0]))
		}
		return s
	}

	// Every operand is evaluated before anything is assigned.
	local := &ast.LocalAssignStmt{}
	block := &ast.DoBlockStmt{Stmts: []ast.Stmt{local}}
	name := func(e ast.Expr) ast.Expr {
		n := " " + strconv.Itoa(len(local.Names))
		local.Names = append(local.Names, n)
		if e != nil {
			local.Exprs = append(local.Exprs, e)
		}
		return at(s, &ast.IdentExpr{Value: n})
	}
	type target struct{ object, key ast.Expr }
	targets := make([]target, len(s.Lhs))
	for i, e := range s.Lhs {
		if f, ok := e.(*ast.AttrGetExpr); ok {
			targets[i] = target{name(single(f.Object)), name(single(f.Key))}
		}
	}
	values := make([]ast.Expr, len(s.Lhs))
	for i := range s.Lhs {
		values[i] = name(nil)
	}
	local.Exprs = append(local.Exprs, s.Rhs...)
	for i := len(s.Lhs) - 1; i >= 0; i-- {
		if t := targets[i]; t.object != nil {
			block.Stmts = append(block.Stmts, store(s, t.object, t.key, values[i]))
			continue
		}
		one := &ast.AssignStmt{Lhs: []ast.Expr{s.Lhs[i]}, Rhs: []ast.Expr{values[i]}}
		one.SetLine(s.Line())
		block.Stmts = append(block.Stmts, one)
	}
	local.SetLine(s.Line())
	block.SetLine(s.Line())
	block.SetLastLine(s.LastLine())
	return block
}

// store returns the call that stores v in a table.
func store(s ast.Stmt, object, key, v ast.Expr) ast.Stmt {
	out := &ast.FuncCallStmt{Expr: call(s, fnStore, object, key, v)}
	out.SetLine(s.Line())
	return out
}

// single makes an expression that may have several values have one.
func single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}

func (r *rewriter) exprs(list []ast.Expr) {
	for i, e := range list {
		list[i] = r.expr(e)
	}
}

func (r *rewriter) expr(e ast.Expr) ast.Expr {
	if e == nil {
		return nil
	}
	defer r.leave()
	if !r.enter(e.Line()) {
		return e
	}
	switch e := e.(type) {
	case *ast.IdentExpr:
		r.constant(e, e.Value)
		r.arg = r.arg || e.Value == "arg"
	case *ast.StringExpr:
		r.constant(e, e.Value)
	case *ast.NumberExpr:
		r.constant(e, e.Value)
	case *ast.AttrGetExpr:
		e.Object, e.Key = r.expr(e.Object), r.expr(e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = r.expr(f.Key), r.expr(f.Value)
			if _, name := f.Key.(*ast.StringExpr); f.Key != nil && !name {
				f.Key = call(f.Key, fnKey, f.Key)
			}
		}
		switch named := named(e); {
		case len(e.Fields) == 0:
			return call(e, fnEmpty)
		case named > fewFields:
			return call(e, fnTable, e, at(e, &ast.NumberExpr{Value: strconv.Itoa(named)}))
		}
		return call(e, fnTable, e)
	case *ast.FuncCallExpr:
		e.Func, e.Receiver = r.expr(e.Func), r.expr(e.Receiver)
		r.constant(e, e.Method)
		r.exprs(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.Comma3Expr:
		r.dots = true
	case *ast.FunctionExpr:
		r.expression(e)
		return call(e, fnClosure, e)
	}
	return e
}

// fewFields is how many named fields take no more room than one.
const fewFields = 8

// named returns how many fields of a constructor have keys.
func named(e *ast.TableExpr) (n int) {
	for _, f := range e.Fields {
		if f.Key != nil {
			n++
		}
	}
	return n
}

// maxConcat is how many operands one call of concat has: each takes a register.
const maxConcat = 100

// concat rewrites a chain of concatenations as one call, or as nested calls if it is long.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	args := []ast.Expr{single(r.expr(e.Lhs))}
	rest := e.Rhs
	for len(args) < maxConcat-1 {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		args = append(args, single(r.expr(next.Lhs)))
		rest = next.Rhs
	}
	return call(e, fnConcat, append(args, single(r.expr(rest)))...)
}

// call returns a call of one of the functions above, which has one value.
func call(where ast.PositionHolder, fn string, args ...ast.Expr) ast.Expr {
	return at(where, &ast.FuncCallExpr{Func: at(where, &ast.IdentExpr{Value: fn}), Args: args, AdjustRet: true})
}

// at gives an expression the line of another node.
func at[E ast.Expr](where ast.PositionHolder, e E) ast.Expr {
	e.SetLine(where.Line())
	e.SetLastLine(where.LastLine())
	return e
}
