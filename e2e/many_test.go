package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// Of many registered hosts few are used.
const (
	manyHosts = 5000
	usedHosts = 50
	shortTTL  = 2 * time.Second
)

// TestManyHostsFewUsed: a gateway asks its name server for the hosts that are used and for no others, and goes on
// reaching them when the name server is gone and what it said has expired.
func TestManyHostsFewUsed(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	serveOther(ctx, t, s, []uint16{80})
	name := func(i int) string { return fmt.Sprintf("h-%04d.many.test", i) }
	var entries strings.Builder
	for i := range manyHosts {
		s.Outside.Set(name(i), shortTTL, otherAddr)
		fmt.Fprintf(&entries, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: h-%04d, namespace: default}\n"+
			"spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}\n", i, name(i))
	}
	if err := s.Config.Write("many.yaml", entries.String()); err != nil {
		t.Fatal(err)
	}
	app := appOf(s)
	app.patience = time.Minute
	reach := func(i int) error {
		peer, err := app.try(ctx, "http", name(i), 80, "/")
		if err == nil && peer != world.GatewayAddr {
			err = fmt.Errorf("%s was reached from %s, want the gateway", name(i), peer)
		}
		return err
	}
	for i := range usedHosts { // what one host has come with may be the first of several messages
		if err := world.Within(ctx, time.Minute, func() error { return reach(i) }); err != nil {
			t.Fatal(err)
		}
	}
	asked := map[string]bool{}
	for _, q := range s.Outside.Queries(func(q outside.Query) bool { return strings.HasSuffix(q.Name, ".many.test") }) {
		asked[q.Name] = true
	}
	if len(asked) != usedHosts {
		t.Errorf("%d of %d registered hosts were asked for, %d were used", len(asked), manyHosts, usedHosts)
	}

	for _, protocol := range []string{"udp", "tcp"} {
		if _, err := s.World.Outside.Run(ctx, 0, "iptables", "-w", "-A", "INPUT", "-p", protocol, "--dport", "53", "-j", "DROP"); err != nil {
			t.Fatal(err)
		}
	}
	select { // until everything that it said has expired
	case <-time.After(2 * shortTTL):
	case <-ctx.Done():
	}
	var failed []error
	for i := range usedHosts {
		failed = append(failed, reach(i))
	}
	if err := errors.Join(failed...); err != nil {
		t.Errorf("without a name server: %v", err)
	}
}
