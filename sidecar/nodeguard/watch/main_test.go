package watch

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) {
	leaks.Verify(m,
		goleak.IgnoreTopFunction("github.com/sallyport/sallyport/e2e/world.startForever"),
		// Connections that HTTP/2 clients keep; client-go shares them between clients and never closes them.
		goleak.IgnoreTopFunction("net/http.(*http2ClientConn).readLoop"), goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"))
}
