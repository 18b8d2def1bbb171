package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a wait asks again may fail: an API server that is being started again, a controller that has just come, a pod that has no address yet. Whoever ends the test there, waits for nothing.
// What a test's own methods end it by is found by what they call; whoever means it (it must fail at no time) says so with Fatal where he waits.
func TestWhatIsAskedAgainMayFail(t *testing.T) {
	ending := map[string]enders{}
	packageOf := func(files *token.FileSet, file *ast.File) string {
		return filepath.Dir(files.File(file.Pos()).Name()) + " " + file.Name.Name
	}
	eachFile(t, isTest, func(files *token.FileSet, file *ast.File) {
		of := packageOf(files, file)
		if ending[of] == nil {
			ending[of] = enders{}
		}
		ending[of].read(file)
	})
	for _, e := range ending {
		e.close()
	}
	eachFile(t, isTest, func(files *token.FileSet, file *ast.File) {
		for _, at := range endsWhileWaiting(file, ending[packageOf(files, file)]) {
			t.Errorf("%s: this ends the test when it fails, and is asked again in a wait", files.Position(at))
		}
	})
}

// enders are what methods call of their receivers, by TYPE.METHOD; once closed, those alone that end the test, by Fatal or by one another.
type enders map[string][]string

// endings are the methods of testing.T that end a test.
var endings = []string{"Fatal", "Fatalf", "FailNow"}

// read takes the methods of a file.
func (e enders) read(file *ast.File) {
	for _, declared := range file.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if of, kind := receiver(f, ok); of != "" && f.Body != nil {
			e[kind+"."+f.Name.Name] = nil
			eachCallOf(f.Body, of, func(call *ast.CallExpr) {
				e[kind+"."+f.Name.Name] = append(e[kind+"."+f.Name.Name], kind+"."+calledName(call))
			})
		}
	}
}

// close leaves those that end the test.
func (e enders) close() {
	ends := map[string]bool{}
	for more := true; more; {
		more = false
		for name, calls := range e {
			if !ends[name] && slices.ContainsFunc(calls, func(called string) bool {
				return ends[called] || slices.Contains(endings, called[strings.LastIndexByte(called, '.')+1:])
			}) {
				ends[name], more = true, true
			}
		}
	}
	for name := range e {
		if !ends[name] {
			delete(e, name)
		}
	}
}

// receiver is the name of a method's receiver, and that of its type; "" for a function.
func receiver(f *ast.FuncDecl, is bool) (name, kind string) {
	if !is || f.Recv == nil || len(f.Recv.List[0].Names) == 0 {
		return "", ""
	}
	of := f.Recv.List[0].Type
	if pointer, is := of.(*ast.StarExpr); is {
		of = pointer.X
	}
	named, is := of.(*ast.Ident)
	if !is {
		return "", ""
	}
	return f.Recv.List[0].Names[0].Name, named.Name
}

// eachCallOf goes over the methods of one variable that are called.
func eachCallOf(in ast.Node, of string, do func(*ast.CallExpr)) {
	ast.Inspect(in, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && isSelector(method, of, method.Sel.Name) {
				do(call)
			}
		}
		return true
	})
}

// endsWhileWaiting are the calls, in what is handed to a wait, of the receiver's methods that end the test.
func endsWhileWaiting(file *ast.File, ending enders) (at []token.Pos) {
	for _, declared := range file.Decls {
		f, ok := declared.(*ast.FuncDecl)
		of, kind := receiver(f, ok)
		if of == "" || f.Body == nil {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			wait, ok := n.(*ast.CallExpr)
			if !ok || calledName(wait) != "Within" && calledName(wait) != "becomes" {
				return true
			}
			for _, arg := range wait.Args {
				if again, ok := arg.(*ast.FuncLit); ok {
					eachCallOf(again.Body, of, func(call *ast.CallExpr) {
						if _, ends := ending[kind+"."+calledName(call)]; ends {
							at = append(at, call.Pos())
						}
					})
				}
			}
			return true
		})
	}
	return at
}

func TestEndingWhileWaiting(t *testing.T) {
	for source, want := range map[string]int{
		`s.becomes("there", time.Minute, func() error { return has(s.kubectl("get", "pods")) })`:                       1,
		`s.becomes("there", time.Minute, func() error { for range 2 { s.kubectl() }; return has(s.kubectl("get")) })`:  2,
		`world.Within(s.Context(), time.Minute, func() error { s.must(nil); return nil })`:                             1,
		`s.becomes("there", time.Minute, func() error { out, err := s.ask("get", "pods"); return has(out, err) })`:     0,
		`s.becomes("there", time.Minute, func() error { if err := fails(); err != nil { s.Fatal(err) }; return nil })`: 0,
		`s.becomes("there", time.Minute, func() error { s.noted(); return nil })`:                                      0,
		`pod := s.kubectl("get"); s.becomes("there", time.Minute, func() error { return has(pod) })`:                   0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "t.go", "package t\nfunc (s *stage) must(err error) { s.Fatal(err) }\nfunc (s *stage) kubectl() string { out, err := s.ask(); s.must(err); return out }\n"+
			"func (s *stage) ask() (string, error) { return s.run() }\nfunc (s *stage) noted() { s.Error() }\nfunc (s *stage) x() {\n"+source+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ending := enders{}
		ending.read(file)
		ending.close()
		if got := endsWhileWaiting(file, ending); len(got) != want {
			t.Errorf("%s: %d found, want %d", source, len(got), want)
		}
	}
}
