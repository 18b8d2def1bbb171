package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// What is measured is said by these variables; by default it is little, and what holds of it is a test.
const (
	fetchEntries = "SALLYPORT_FETCH_ENTRIES" // how many there are, instead of 3,000
	fetchUsed    = "SALLYPORT_FETCH_USED"    // how many of them are used, instead of 50
)

// fewEntries is what the memory of an Envoy is compared with.
const fewEntries = 100

// TestHoldsWhatItUses: the memory of a sidecar's Envoy follows what its pod uses, not what is registered.
func TestHoldsWhatItUses(t *testing.T) {
	needRoot(t)
	ctx, s := setScene(t, story.InNamespaces)
	many, used := number(t, fetchEntries, 3000), number(t, fetchUsed, usedHosts)
	serveOther(ctx, t, s, []uint16{80, 443})
	name := func(i int) string { return fmt.Sprintf("h-%05d.many.test", i) }
	app := appOf(s).whileOpen(true)
	register := func(count int) {
		t.Helper()
		var entries strings.Builder
		for i := range count {
			s.Outside.Set(name(i), time.Minute, otherAddr)
			fmt.Fprintf(&entries, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: h-%05d, namespace: default}\n"+
				"spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}\n", i, name(i))
		}
		if err := s.Config.Write("many.yaml", entries.String()); err != nil {
			t.Fatal(err)
		}
		if _, err := app.answered(ctx, name(count-1)); err != nil {
			t.Fatal(err)
		}
	}
	// fresh is a new pod's memory, in bytes, after it has used some hosts: Envoy's and the agent's.
	fresh := func(fetch string, uses int) (envoy, agent int64) {
		t.Helper()
		fetchFrom(ctx, t, s, fetch)
		var asked, again, host []time.Duration
		for i := range uses {
			asked = append(asked, took(t, func() error { _, err := app.resolve(ctx, name(i)); return err }))
			again = append(again, took(t, func() error { _, err := app.resolve(ctx, name(i)); return err }))
			host = append(host, took(t, func() error { _, err := app.try(ctx, "http", name(i), 80, "/"); return err }))
		}
		t.Logf("%s: DNS when first used %s, then %s; a request by name %s", fetch, quantiles(asked), quantiles(again), quantiles(host))
		envoy, err := s.App.EnvoyMemory()
		if err != nil {
			t.Fatal(err)
		}
		agent, err = s.App.AgentMemory()
		if err != nil {
			t.Fatal(err)
		}
		return envoy, agent
	}
	const mib = 1 << 20
	register(fewEntries)
	few, agentFew := fresh("all", usedHosts)
	register(many)
	onUse, agentOnUse := fresh("onUse", used)
	t.Logf("Envoy with %d entries %d MiB, its agent %d MiB; with %d of %d in use %d MiB and %d MiB", fewEntries, few/mib, agentFew/mib, used, many, onUse/mib, agentOnUse/mib)
	if float64(onUse) > 1.3*float64(few) {
		t.Errorf("Envoy has %d MiB with %d of %d hosts in use, and %d MiB with %d hosts", onUse/mib, used, many, few/mib, fewEntries)
	}
	if os.Getenv(fetchEntries) != "" {
		all, agentAll := fresh("all", used)
		t.Logf("holding all: %d MiB, its agent %d MiB", all/mib, agentAll/mib)
	}

	// who asks no DNS is held once, for what it takes to fetch a row
	fetchFrom(ctx, t, s, "onUse")
	at := app.at(world.NameServerAddr)
	var first, second []time.Duration
	for i := range used {
		one := func() error { _, err := at.try(ctx, "http", name(i), 80, "/"); return err }
		first, second = append(first, took(t, one)), append(second, took(t, one))
	}
	t.Logf("a request without DNS: first %s, then %s", quantiles(first), quantiles(second))
	first, second = nil, nil
	for i := range used {
		one := func() error { _, err := at.try(ctx, "https", name(many-1-i), 443, "/"); return err }
		first, second = append(first, took(t, one)), append(second, took(t, one))
	}
	t.Logf("TLS without DNS: first %s, then %s", quantiles(first), quantiles(second))
}

// fetchFrom has a new pod whose sidecar holds what the setting says: by a controller that has begun with it, since one that reads it anew does so whenever it comes to it.
func fetchFrom(ctx context.Context, t *testing.T, s *story.Scene, fetch string) {
	t.Helper()
	if err := errors.Join(s.SetFetch(fetch), s.KillController(ctx), s.StartController(ctx), s.App.Restart(ctx, true)); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

func took(t *testing.T, f func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := f(); err != nil {
		t.Error(err)
	}
	return time.Since(begin)
}

func quantiles(d []time.Duration) string {
	slices.Sort(d)
	if len(d) == 0 {
		return "never"
	}
	return fmt.Sprintf("p50 %s p99 %s", d[len(d)/2].Round(10*time.Microsecond), d[len(d)*99/100].Round(10*time.Microsecond))
}
