package gatewayapi

import (
	"strings"
	"testing"
)

// TestObjectsName: whatever a Gateway is called, a Service can be called as its objects are, and others' are called otherwise.
func TestObjectsName(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"web", "web.shop", "9web", strings.Repeat("a", 60), strings.Repeat("a", 60) + ".b"} {
		got := ObjectsName(name, "sallyport")
		if !serviceName.MatchString(got) || seen[got] != "" {
			t.Errorf("%s: %q, as %q", name, got, seen[got])
		}
		seen[got] = name
	}
	if seen["web-sallyport"] != "web" {
		t.Error("web is not called web-sallyport")
	}
	if got := ObjectsName("web", WaypointClasses[0]); got != "web" {
		t.Errorf("the waypoint web is called %q", got)
	}
}
