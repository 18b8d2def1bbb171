package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/sallyport/sallyport/e2e/leaks"
)

// playVariable makes the test's binary the program.
const playVariable = "SALLYPORT_NODE_PLAYS"

func TestMain(m *testing.M) {
	if os.Getenv(playVariable) != "" {
		main()
		return
	}
	leaks.Verify(m,
		goleak.IgnoreTopFunction("github.com/sallyport/sallyport/e2e/world.startForever"),
		// Connections that HTTP/2 clients keep; client-go shares them between clients and never closes them.
		goleak.IgnoreTopFunction("net/http.(*http2ClientConn).readLoop"), goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"))
}
