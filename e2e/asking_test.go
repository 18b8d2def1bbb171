package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// requesting are the names of what makes requests here.
var requesting = []string{"ask", "asks", "Do", "get", "Get", "resolve", "Run", "send", "tell", "tries", "try"}

// Who looks at a record asks for nothing: he is called for each record that there is, each of his requests is one more by the next time, and on a busy machine, where what is waited for is late,
// they are soon so many that nothing else comes. What is to be asked again is asked beside it, once for each look at the log.
func TestLookingAtRecordsAsksNothing(t *testing.T) {
	eachFile(t, func(path string) bool { return isTest(path) && within(path, "e2e") }, func(files *token.FileSet, file *ast.File) {
		for _, at := range asksWhileLooking(file) {
			t.Errorf("%s: this asks once for each record that is looked at", files.Position(at))
		}
	})
}

// asksWhileLooking are the requests in functions that say whether one record is what is looked for.
func asksWhileLooking(file *ast.File) (at []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		look, ok := n.(*ast.FuncLit)
		if !ok || !looksAtOne(look.Type) {
			return true
		}
		ast.Inspect(look.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && slices.Contains(requesting, calledName(call)) {
				at = append(at, call.Pos())
			}
			return true
		})
		return true
	})
	return at
}

// looksAtOne says whether a function takes a record and says yes or no.
func looksAtOne(f *ast.FuncType) bool {
	if len(f.Params.List) != 1 || f.Results == nil || len(f.Results.List) != 1 {
		return false
	}
	result, ok := f.Results.List[0].Type.(*ast.Ident)
	kind := f.Params.List[0].Type
	if pointer, is := kind.(*ast.StarExpr); is {
		kind = pointer.X
	}
	of, is := kind.(*ast.SelectorExpr)
	return ok && result.Name == "bool" && is && isSelector(of, "record", "Record")
}

func TestAskingWhileLooking(t *testing.T) {
	for source, want := range map[string]int{
		`recorded(func(r record.Record) bool { _, _ = p.try(ctx, host); return r.Host == host })`:                1,
		`recorded(func(r *record.Record) bool { for _, c := range ways { c.ask(ctx) }; return r.Host == host })`: 1,
		`recorded(func(r record.Record) bool { return strings.HasPrefix(r.Host, host) })`:                        0,
		`recorded(func() { p.try(ctx, host) }, func(r record.Record) bool { return r.Host == host })`:            0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "t.go", "package t\nfunc x() {\n"+source+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := asksWhileLooking(file); len(got) != want {
			t.Errorf("%s: %d found, want %d", source, len(got), want)
		}
	}
}
