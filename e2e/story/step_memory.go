package story

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// agentMemory bounds the resident memory of an agent at rest, in bytes: there is one in every pod.
const agentMemory = 30 << 20

// smallAgent measures the agents, while nothing happens.
func smallAgent(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	for _, pod := range []*Pod{s.App, s.Gateway} {
		var resident int64
		if err := world.Within(ctx, time.Minute, func() (err error) { // what it had to do before is given back a moment later
			if resident, err = pod.agent.Resident(); err == nil && resident > agentMemory {
				err = fmt.Errorf("the agent of %s holds %.1f MiB, want at most %d", pod.name, mib(resident), agentMemory>>20)
			}
			return err
		}); err != nil {
			return err
		}
		s.show("agent of %s: %.1f MiB", pod.name, mib(resident))
	}
	return nil
}

// A mesh of so many registered hosts, of which the pod uses a few; and how much more its Envoy may hold for that, where sallyport.fetch is onUse.
const (
	manyHosts = 10_000
	usedHosts = 50
	onUseMore = 0.3

	manyFile = "many.yaml"
)

func manyHost(i int) string { return fmt.Sprintf("h-%05d.many.test", i) }

// usedOfMany are those that the pod uses: the last ones of the few, and of the many.
func usedOfMany() (names []string) {
	for i := range usedHosts {
		names = append(names, manyHost(i), manyHost(manyHosts-1-i))
	}
	return names
}

// manyEntries register the first so many hosts.
func manyEntries(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: h-%05d, namespace: default}\n"+
			"spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}\n", i, manyHost(i))
	}
	return b.String()
}

// manyRegistered measures the sidecar while ten thousand hosts are registered: with all of them, and with those that its pod uses.
func manyRegistered(ctx context.Context, s *Scene) (err error) {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if _, err := s.policy(ctx, "REGISTRY_ONLY"); err != nil {
		return err
	}
	before := s.Controller.fetch
	for _, name := range usedOfMany() {
		s.Outside.Set(name, time.Minute, s.external)
	}
	defer func() { err = errors.Join(err, s.fewAgain(ctx), s.SetFetch(before), s.App.Restart(ctx, true)) }()
	few, err := s.sidecarHolds(ctx, usedHosts, "all")
	if err != nil {
		return err
	}
	s.show("%6d hosts: Envoy %.0f MiB", usedHosts, mib(few))
	all, err := s.sidecarHolds(ctx, manyHosts, "all")
	if err != nil {
		return err
	}
	s.show("%6d hosts: Envoy %.0f MiB", manyHosts, mib(all))
	onUse, err := s.sidecarHolds(ctx, manyHosts, "onUse")
	if err != nil {
		return err
	}
	s.show("%6d hosts, %d used, with sallyport.fetch: onUse: Envoy %.0f MiB", manyHosts, usedHosts, mib(onUse))
	if float64(onUse) > (1+onUseMore)*float64(few) {
		return fmt.Errorf("with fetch: onUse Envoy holds %.0f MiB, want at most %.1f times the %.0f MiB with %d hosts", mib(onUse), 1+onUseMore, mib(few), usedHosts)
	}
	return nil
}

// sidecarHolds is the memory, in bytes, of the Envoy of a new pod that has used some hosts of so many.
func (s *Scene) sidecarHolds(ctx context.Context, registered int, fetch string) (int64, error) {
	// A controller that starts has read all of it before it answers anybody.
	if err := errors.Join(s.Config.Write(manyFile, manyEntries(registered)), s.SetFetch(fetch), s.Controller.kill(ctx), s.Controller.up(ctx), s.App.Restart(ctx, true)); err != nil {
		return 0, err
	}
	// A first use is refused with words when the controller, which is new, has not answered for some seconds.
	for i := range usedHosts {
		if err := world.Within(ctx, 3*time.Minute, func() error { return s.uses(ctx, manyHost(registered-1-i)) }); err != nil {
			return 0, err
		}
	}
	return s.App.EnvoyMemory()
}

// fewAgain takes the many hosts back, and waits until the sidecar has heard of it.
func (s *Scene) fewAgain(ctx context.Context) error {
	if !s.Config.Has(manyFile) {
		return nil
	}
	if err := s.Config.Remove(manyFile); err != nil {
		return err
	}
	return world.Within(ctx, 3*time.Minute, func() error {
		if s.uses(ctx, manyHost(0)) == nil {
			return fmt.Errorf("%s is still open", manyHost(0))
		}
		return nil
	})
}

func (s *Scene) uses(ctx context.Context, host string) error {
	reply, err := s.get(ctx, s.url("http", host, "/used"))
	return errors.Join(err, reply.must())
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
