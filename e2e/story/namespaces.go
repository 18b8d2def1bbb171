package story

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"

	"github.com/sallyport/sallyport/e2e/world"
)

// InNamespaces sets the scene with pods in network namespaces: an app with a sidecar, an egress gateway, a controller
// on its own host, and the outside behind a router. Closing the run ends all of it.
func InNamespaces(ctx context.Context, run *world.Run, programs Programs) (*Scene, error) {
	return inNamespaces(ctx, run, programs)
}

// WithController is InNamespaces with further flags for the controller.
func WithController(flags ...string) func(context.Context, *world.Run, Programs) (*Scene, error) {
	return func(ctx context.Context, run *world.Run, programs Programs) (*Scene, error) {
		return inNamespaces(ctx, run, programs, flags...)
	}
}

func inNamespaces(ctx context.Context, run *world.Run, programs Programs, controllerFlags ...string) (*Scene, error) {
	s, err := WithoutMesh(ctx, run, programs)
	if err != nil {
		return nil, err
	}
	if s.Config, err = newConfigDir(run.Dir); err != nil {
		return nil, err
	}
	if err := errors.Join(
		s.Config.Write("gateway.yaml", gatewayObjects),
		s.Config.Write("external.yaml", s.entry("external", externalHost)),
	); err != nil {
		return nil, err
	}
	return s, s.startMesh(ctx, controllerFlags)
}

// WithoutMesh sets the scene with the same hosts and the outside, and nothing of a mesh: control planes are the caller's to start, and pods come with AddPlaced.
func WithoutMesh(_ context.Context, run *world.Run, programs Programs) (*Scene, error) {
	w, err := world.New(run)
	if err != nil {
		return nil, err
	}
	s := &Scene{Run: run, World: w, app: appPod{w.App, world.AppAddr, "default", appPrincipal}}
	s.client = func(ctx context.Context, argv ...string) *exec.Cmd {
		return s.app.host.Command(ctx, world.AppUID, argv...)
	}
	if s.Programs, err = programs.CopyTo(run.Dir + "/bin"); err != nil {
		return nil, err
	}
	if err := s.startOutside(w.Outside, world.OutsideAddrs, 80, 443, netip.AddrPortFrom(world.NameServerAddr, 53)); err != nil {
		return nil, err
	}
	return s, errors.Join(
		os.WriteFile(s.caFile(), s.Outside.CA.PEM(), 0o644),
		// The gateway's image trusts the outside's CA, as real ones trust the public ones.
		w.Gateway.Etc("ssl/certs/ca-certificates.crt", s.Outside.CA.PEM()),
	)
}

// startMesh starts controller, gateway and the app's sidecar, in this order.
func (s *Scene) startMesh(ctx context.Context, controllerFlags []string) (err error) {
	if s.Controller, err = newController(s, s.World.Control); err != nil {
		return err
	}
	s.Controller.flags = controllerFlags
	s.App = &Pod{
		scene: s, host: s.World.App, role: "sidecar", name: "app-1", ns: "default", sa: "app",
		ip: world.AppAddr, labels: []string{"app=app"},
	}
	s.Gateway = &Pod{
		scene: s, host: s.World.Gateway, role: "router", name: "egress-1", ns: "istio-system",
		sa: "istio-egressgateway-service-account", ip: world.GatewayAddr,
		labels: []string{"istio=egressgateway", "app=istio-egressgateway"}, ends: true,
	}
	if err := s.Controller.up(ctx); err != nil {
		return err
	}
	for _, pod := range []*Pod{s.Gateway, s.App} {
		if err := pod.prepare(ctx); err != nil {
			return err
		}
		if err := pod.up(ctx); err != nil {
			return err
		}
	}
	return nil
}
