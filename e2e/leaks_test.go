package e2e

import (
	"go/ast"
	"go/token"
	"testing"
)

// What tests leave behind is looked for by e2e/leaks, which waits for what is about to end, and not by goleak alone: it gives less than half a second, in which a busy machine may not run a goroutine.
func TestLeaksAreWaitedFor(t *testing.T) {
	eachFile(t, func(path string) bool { return isTest(path) && !within(path, "e2e/leaks") }, func(files *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, name := range []string{"VerifyTestMain", "VerifyNone", "Find"} {
					if isSelector(call.Fun, "goleak", name) {
						t.Errorf("%s: goleak.%s; take e2e/leaks", files.Position(call.Pos()), name)
					}
				}
			}
			return true
		})
	})
}
