package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// No program, no test, and nothing that tests stand on, takes a port with ":0", gives it back, and tells somebody else to listen there: whoever asks the kernel in between has it.
// e2e/freeport has ports for that.
func TestPortsAreNotGivenBack(t *testing.T) {
	eachFile(t, func(path string) bool { return !within(path, "sidecar/supervise/port") }, func(files *token.FileSet, file *ast.File) {
		for _, at := range portsGivenBack(file) {
			t.Errorf("%s: the port is free for anybody when this returns; take one of e2e/freeport", files.Position(at))
		}
	})
}

// portsGivenBack are where functions listen, that do no more with it than to read its address and to close it, before they end or before somebody has their result.
func portsGivenBack(file *ast.File) (at []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		var kind *ast.FuncType
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			kind, body = n.Type, n.Body
		case *ast.FuncLit:
			kind, body = n.Type, n.Body
		}
		if body == nil {
			return true
		}
		for listener, pos := range listeners(body) {
			uses, harmless, closed := 0, 0, false
			ast.Inspect(body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == listener && (n.Sel.Name == "Addr" || n.Sel.Name == "LocalAddr" || n.Sel.Name == "Close") {
						harmless++
						closed = closed || n.Sel.Name == "Close"
					}
				case *ast.Ident:
					if n.Name == listener {
						uses++
					}
				}
				return true
			})
			if (closed && kind.Results != nil && !dials(body) || closesBeforeItsEnd(body, listener)) && uses == harmless+1 { // and where it is declared
				at = append(at, pos)
			}
		}
		return true
	})
	return at
}

// dials says whether a function connects to somebody itself: it has the port for as long as it listens.
func dials(body *ast.BlockStmt) (does bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			does = does || strings.HasPrefix(calledName(call), "Dial")
		}
		return !does
	})
	return does
}

// closesBeforeItsEnd says whether a function closes something before it returns.
func closesBeforeItsEnd(body *ast.BlockStmt, what string) (does bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.DeferStmt, *ast.ReturnStmt:
			return false
		case *ast.CallExpr:
			does = does || isSelector(n.Fun, what, "Close")
		}
		return !does
	})
	return does
}

// listeners are the variables for what a function listens at, at any port.
func listeners(body *ast.BlockStmt) map[string]token.Pos {
	found := map[string]token.Pos{}
	ast.Inspect(body, func(n ast.Node) bool {
		if _, inner := n.(*ast.FuncLit); inner {
			return false
		}
		assigned, ok := n.(*ast.AssignStmt)
		if !ok || len(assigned.Rhs) != 1 {
			return true
		}
		call, ok := assigned.Rhs[0].(*ast.CallExpr)
		if !ok || len(call.Args) != 2 || !isSelector(call.Fun, "net", "Listen") && !isSelector(call.Fun, "net", "ListenPacket") {
			return true
		}
		if where, ok := call.Args[1].(*ast.BasicLit); !ok || !strings.HasSuffix(where.Value, `:0"`) {
			return true
		}
		if name, ok := assigned.Lhs[0].(*ast.Ident); ok {
			found[name.Name] = call.Pos()
		}
		return true
	})
	return found
}

func TestPortsGivenBack(t *testing.T) {
	for source, want := range map[string]int{
		`func free() (string, error) { l, err := net.Listen("tcp", "127.0.0.1:0"); if err != nil { return "", err }; return l.Addr().String(), l.Close() }`:     1,
		`func free(t *testing.T) string { l, _ := net.Listen("tcp", "127.0.0.1:0"); defer func() { _ = l.Close() }(); return l.Addr().String() }`:               1,
		`func TestNobody(t *testing.T) { l, _ := net.Listen("tcp", "127.0.0.1:0"); at := l.Addr(); l.Close(); ask(at) }`:                                        1,
		`func TestSlow(t *testing.T) { l, _ := net.Listen("tcp", "127.0.0.1:0"); defer l.Close(); ask(l.Addr()) }`:                                              0,
		`func may() error { l, _ := net.Listen("tcp", "127.0.0.1:0"); defer l.Close(); _, err := net.Dial("tcp", l.Addr().String()); return err }`:              0,
		`func free(to *string) error { l, _ := net.Listen("tcp", "127.0.0.1:0"); defer l.Close(); *to = l.Addr().String(); return nil }`:                        1,
		`func serve(t *testing.T) string { l, _ := net.Listen("tcp", "127.0.0.1:0"); go accept(l); t.Cleanup(func() { l.Close() }); return l.Addr().String() }`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "t.go", "package t\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := portsGivenBack(file); len(got) != want {
			t.Errorf("%s: %d found, want %d", source, len(got), want)
		}
	}
}

// No test lets the kernel choose a port, closes it, and listens there again later, as one does that plays a server which goes and comes back: whoever asks the kernel in between has it.
func TestPortsAreNotTakenAgain(t *testing.T) {
	eachFile(t, func(path string) bool { return isTest(path) || within(path, "e2e") }, func(files *token.FileSet, file *ast.File) {
		for _, at := range portsTakenAgain(file) {
			t.Errorf("%s: the port may be somebody else's when this listens again; take one of e2e/freeport", files.Position(at))
		}
	})
}

// portsTakenAgain are where functions listen at what a field says, and have it say from then on what the kernel chose: when they are called again, they listen there.
func portsTakenAgain(file *ast.File) (at []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			return true
		}
		listens := map[string]token.Pos{}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if len(n.Args) == 2 && (isSelector(n.Fun, "net", "Listen") || isSelector(n.Fun, "net", "ListenPacket")) {
					listens[fieldOf(n.Args[1])] = n.Pos()
				}
			case *ast.AssignStmt:
				for i, value := range n.Rhs {
					if i >= len(n.Lhs) || !saysWhere(value) {
						continue
					}
					if pos, listened := listens[fieldOf(n.Lhs[i])]; listened && fieldOf(n.Lhs[i]) != "" {
						at = append(at, pos)
					}
				}
			}
			return true
		})
		return true
	})
	return at
}

// fieldOf is how a field of a variable is written; "" of what is none.
func fieldOf(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// saysWhere says whether an expression asks somebody where he listens.
func saysWhere(e ast.Expr) (does bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && (calledName(call) == "Addr" || calledName(call) == "LocalAddr") {
			does = true
		}
		return !does
	})
	return does
}

func TestPortsTakenAgainAreFound(t *testing.T) {
	for source, want := range map[string]int{
		`func (s *server) start() { l, _ := net.Listen("tcp", s.addr); s.addr = l.Addr().String() }`:                                              1,
		`func (s *server) start() { l, _ := net.Listen("tcp", s.addr); go serve(l) }`:                                                             0,
		`func (s *server) start() { u, _ := net.ListenPacket("udp", "127.0.0.1:0"); s.addr = u.LocalAddr().String(); net.Listen("tcp", s.addr) }`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "t.go", "package t\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := portsTakenAgain(file); len(got) != want {
			t.Errorf("%s: %d found, want %d", source, len(got), want)
		}
	}
}
