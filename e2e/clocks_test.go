package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// No test gives away a variable as the time and moves it: what it tests may read it at that moment, from a goroutine of its own. e2e/clock is for that.
func TestMovedTimesAreClocks(t *testing.T) {
	eachFile(t, isTest, func(files *token.FileSet, file *ast.File) {
		for _, at := range movedTimes(file) {
			t.Errorf("%s: a variable is given away as the time and moved in the same test; use a clock of e2e/clock", files.Position(at))
		}
	})
}

// movedTimes are the functions that return a variable as the time which the same declaration assigns anew.
func movedTimes(file *ast.File) (at []token.Pos) {
	for _, d := range file.Decls {
		returned, moved := map[string]token.Pos{}, map[string]bool{}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				if name := returnsTime(n); name != "" {
					returned[name] = n.Pos()
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					if name, ok := to.(*ast.Ident); ok && n.Tok == token.ASSIGN {
						moved[name.Name] = true
					}
				}
			}
			return true
		})
		for name, pos := range returned {
			if moved[name] {
				at = append(at, pos)
			}
		}
	}
	return at
}

// returnsTime is the variable that a function() time.Time does nothing but return, or "".
func returnsTime(f *ast.FuncLit) string {
	results := f.Type.Results
	if results == nil || len(results.List) != 1 || len(f.Body.List) != 1 {
		return ""
	}
	kind, ok := results.List[0].Type.(*ast.SelectorExpr)
	if !ok || kind.Sel.Name != "Time" {
		return ""
	}
	statement, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(statement.Results) != 1 {
		return ""
	}
	if name, ok := statement.Results[0].(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

func TestMovedTimes(t *testing.T) {
	for source, want := range map[string]int{
		"func t() { now := x; o.Now = func() time.Time { return now }; now = y }":             1,
		"func t() { now := x; o.Now = func() time.Time { return now } }":                      0,
		"func t() { now := x; o.Now = func() time.Time { return hand }; now = y }":            0,
		"func t() { hand := clock.At(x); o.Now = hand.Now; hand.Set(y) }":                     0,
		"func t() { a, now := 1, x; o.Now = func() time.Time { return now }; a, now = 2, y }": 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "t.go", "package t\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := movedTimes(file); len(got) != want {
			t.Errorf("%s: %d found, want %d", source, len(got), want)
		}
	}
}
