package inforce

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) {
	leaks.Verify(m,
		goleak.IgnoreAnyFunction("github.com/sallyport/sallyport/e2e/world.startForever"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
