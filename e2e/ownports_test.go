package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// The ports that the kernel gives to whoever does not say which, in a network namespace that nobody has set otherwise.
const kernelsFirst, kernelsLast = 32768, 60999

// A test that has a client connect from a port of its choice takes none that the kernel gives: a connection of somebody else's in that network may have it.
func TestOwnPortsAreNotTheKernels(t *testing.T) {
	eachFile(t, func(path string) bool { return isTest(path) || within(path, "e2e") }, func(files *token.FileSet, file *ast.File) {
		for _, at := range kernelsPorts(file) {
			t.Errorf("%s: the kernel may have given this port to somebody else; take one above %d", files.Position(at), kernelsLast)
		}
	})
}

// kernelsPorts are the numbers of such ports in a file that binds connections' own ends.
func kernelsPorts(file *ast.File) (at []token.Pos) {
	binds := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			key, ok := n.Key.(*ast.Ident)
			binds = binds || ok && key.Name == "LocalAddr"
		case *ast.BasicLit:
			if port, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil && port >= kernelsFirst && port <= kernelsLast {
				at = append(at, n.Pos())
			}
		}
		return true
	})
	if !binds {
		return nil
	}
	return at
}

func TestKernelsPorts(t *testing.T) {
	for source, want := range map[string]int{
		`func from() { _ = net.Dialer{LocalAddr: &net.TCPAddr{Port: 40_000}} }`:                       1,
		`const first = 40000; func from() { _ = net.Dialer{LocalAddr: &net.TCPAddr{Port: first+2}} }`: 1,
		`func from() { _ = net.Dialer{LocalAddr: &net.TCPAddr{Port: 61_000}} }`:                       0,
		`func from() { _ = net.Dialer{Timeout: 40000} }`:                                              0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "t.go", "package t\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := kernelsPorts(file); len(got) != want {
			t.Errorf("%s: %d found, want %d", source, len(got), want)
		}
	}
}
