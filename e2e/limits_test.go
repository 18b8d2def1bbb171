package e2e

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
	"time"
)

// leastLimit is how long a test waits at least for what must happen, before it says that it does not.
const leastLimit = 30 * time.Second

// No test is red because the machine has much else to do: what must happen has half a minute or more, which a test that is content does not wait for.
// How soon something is, where that is promised, is held by what is seen: when what still got through began, not when somebody came to look.
func TestLimitsAreGenerous(t *testing.T) {
	named, waiting := map[string]durations{}, map[string]waiters{}
	packageOf := func(files *token.FileSet, file *ast.File) string {
		return filepath.Dir(files.File(file.Pos()).Name()) + " " + file.Name.Name
	}
	eachFile(t, func(string) bool { return true }, func(files *token.FileSet, file *ast.File) {
		of := packageOf(files, file)
		if named[of] == nil {
			named[of], waiting[of] = durations{}, waiters{}
		}
		named[of].read(file)
		waiting[of].read(file)
	})
	eachFile(t, isTest, func(files *token.FileSet, file *ast.File) {
		for at, limit := range shortLimits(file, named[packageOf(files, file)], waiting[packageOf(files, file)]) {
			t.Errorf("%s: gives up after %s; a busy machine may need %s", files.Position(at), limit, leastLimit)
		}
	})
}

// shortLimits are the limits below leastLimit after which a file's tests fail: those of functions that wait (world.Within, those called becomes, and those that hand on to it how
// long), those of loops that end at a time, and those of a select whose case fails the test. A bubble's time (testing/synctest) is no machine's.
func shortLimits(file *ast.File, named durations, waiting waiters) map[token.Pos]time.Duration {
	found := map[token.Pos]time.Duration{}
	note := func(e ast.Expr) {
		if limit, ok := named.of(e); ok && limit < leastLimit {
			found[e.Pos()] = limit
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch name := calledName(n); {
			case name == "Test" && isSelector(n.Fun, "synctest", "Test"):
				return false
			case (name == "Within" || name == "becomes") && len(n.Args) == 3:
				note(n.Args[1])
			default:
				if i, waits := waiting[name]; waits && i < len(n.Args) {
					note(n.Args[i])
				}
			}
		case *ast.ForStmt:
			if assigned, ok := n.Init.(*ast.AssignStmt); ok && len(assigned.Rhs) == 1 && fails(n.Body) {
				if limit := addedToNow(assigned.Rhs[0]); limit != nil {
					note(limit)
				} else if after, ok := assigned.Rhs[0].(*ast.CallExpr); ok && isSelector(after.Fun, "time", "After") {
					note(after.Args[0])
				}
			}
		case *ast.CommClause:
			receive, ok := n.Comm.(*ast.ExprStmt)
			if !ok || !fails(&ast.BlockStmt{List: n.Body}) {
				return true
			}
			if arrow, ok := receive.X.(*ast.UnaryExpr); ok && arrow.Op == token.ARROW {
				if after, ok := arrow.X.(*ast.CallExpr); ok && isSelector(after.Fun, "time", "After") {
					note(after.Args[0])
				}
			}
		}
		return true
	})
	return found
}

// fails says whether a block fails the test somewhere.
func fails(block *ast.BlockStmt) (does bool) {
	ast.Inspect(block, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			switch calledName(call) {
			case "Fatal", "Fatalf", "Error", "Errorf", "FailNow":
				does = true
			}
		}
		return !does
	})
	return does
}

// addedToNow is the duration of time.Now().Add(duration), or nil.
func addedToNow(e ast.Expr) ast.Expr {
	add, ok := e.(*ast.CallExpr)
	if !ok || calledName(add) != "Add" || len(add.Args) != 1 {
		return nil
	}
	if now, ok := add.Fun.(*ast.SelectorExpr).X.(*ast.CallExpr); ok && isSelector(now.Fun, "time", "Now") {
		return add.Args[0]
	}
	return nil
}

// calledName is the name of the function or method that is called, without what it is of.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func isSelector(e ast.Expr, of, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == of
}

// waiters are functions of a package that hand one of their arguments on to world.Within as its limit: which one, by the function's name.
type waiters map[string]int

// read takes those of a file.
func (w waiters) read(file *ast.File) {
	for _, declared := range file.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		place, i := map[string]int{}, 0
		for _, field := range f.Type.Params.List {
			for _, name := range field.Names {
				place[name.Name] = i
				i++
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && calledName(call) == "Within" && len(call.Args) == 3 {
				if limit, ok := call.Args[1].(*ast.Ident); ok {
					if i, ok := place[limit.Name]; ok {
						w[f.Name.Name] = i
					}
				}
			}
			return true
		})
	}
}

// durations are constants of a package, by name.
type durations map[string]time.Duration

// read takes those of a file that are made of numbers and units of package time alone.
func (d durations) read(file *ast.File) {
	for _, declared := range file.Decls {
		list, ok := declared.(*ast.GenDecl)
		if !ok || list.Tok != token.CONST {
			continue
		}
		for _, spec := range list.Specs {
			for i, name := range spec.(*ast.ValueSpec).Names {
				if values := spec.(*ast.ValueSpec).Values; i < len(values) {
					if value, ok := durations(nil).of(values[i]); ok {
						d[name.Name] = value
					}
				}
			}
		}
	}
}

// of is what an expression of numbers, units of package time and such constants says.
func (d durations) of(e ast.Expr) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return d.of(e.X)
	case *ast.Ident:
		value, ok := d[e.Name]
		return value, ok
	case *ast.BasicLit:
		n, ok := constant.Int64Val(constant.ToInt(constant.MakeFromLiteral(e.Value, e.Kind, 0)))
		return time.Duration(n), ok
	case *ast.SelectorExpr:
		for name, unit := range map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour} {
			if isSelector(e, "time", name) {
				return unit, true
			}
		}
	case *ast.BinaryExpr:
		x, okX := d.of(e.X)
		y, okY := d.of(e.Y)
		switch {
		case okX && okY && e.Op == token.MUL:
			return x * y, true
		case okX && okY && e.Op == token.ADD:
			return x + y, true
		}
	}
	return 0, false
}

func TestShortLimits(t *testing.T) {
	for source, want := range map[string]int{
		`world.Within(ctx, 20*time.Second, f)`:                                                                      1,
		`world.Within(ctx, time.Minute, f)`:                                                                         0,
		`world.Within(ctx, soon, f)`:                                                                                1,
		`world.Within(ctx, patience+soon, f)`:                                                                       0,
		`world.Within(ctx, rotatedWithin, f)`:                                                                       0,
		`s.becomes("it is closed", time.Second, f)`:                                                                 1,
		`comes(t, "in time", 5*time.Second)`:                                                                        1,
		`comes(t, "in time", patience)`:                                                                             0,
		`goes(t, 5*time.Second)`:                                                                                    0,
		`for end := time.Now().Add(10 * time.Second); ; { t.Fatal() }`:                                              1,
		`for end := time.Now().Add(10 * time.Second); time.Now().Before(end); { talk() }`:                           0,
		`for end := time.After(5 * time.Second); ; { select { case <-end: t.Error() } }`:                            1,
		`select { case <-c: case <-time.After(10 * time.Second): t.Fatal("never") }`:                                1,
		`select { case <-c: t.Fatal("too soon"); case <-time.After(time.Second): }`:                                 0,
		`select { case <-time.After(time.Minute): t.Fatal("never") }`:                                               0,
		`synctest.Test(t, func(t *testing.T) { select { case <-time.After(10 * time.Second): t.Fatal("never") } })`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "t.go", "package t\nconst patience, soon = time.Minute, 2 * time.Second\nfunc comes(t T, what string, within time.Duration) { world.Within(ctx, within, f) }\nfunc x() {\n"+source+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		named, waiting := durations{}, waiters{}
		named.read(file)
		waiting.read(file)
		if got := shortLimits(file, named, waiting); len(got) != want {
			t.Errorf("%s: %v found, want %d", source, got, want)
		}
	}
}
