package story

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
)

// The names of the outside.
const (
	externalHost     = "external.com"      // registered from the start
	secondHost       = "second.com"        // registered on the way
	unregisteredHost = "unregistered.test" // never registered
)

// ttl of every record of the outside's name server: short, so that a change can be waited for.
const ttl = 3 * time.Second

// Scene is where the story plays: an outside, a config directory, and either pods in namespaces or one
// `sallyport up` on loopback.
type Scene struct {
	Run      *world.Run
	Outside  *outside.Outside
	Programs Programs
	Config   ConfigDir

	// In namespaces; nil on loopback.
	World        *world.World
	App, Gateway *Pod
	Controller   *Controller
	ambient      *ambient // nil where the story is of sidecars

	// On loopback; nil in namespaces.
	Up *Up

	external, moved, second, unregistered netip.Addr

	app appPod
	// client makes the command that runs a program as the application does.
	client func(ctx context.Context, argv ...string) *exec.Cmd

	wants     []want
	stepBegan time.Time
	evidence  []string
}

// appPod is where the story's application is; nothing of it is known on loopback.
type appPod struct {
	host          *world.Host
	addr          netip.Addr
	ns, principal string
}

// Namespaced tells which of the two kinds of scene this is.
func (s *Scene) Namespaced() bool { return s.World != nil }

// programsRun says which of the programs that should run has ended.
func (s *Scene) programsRun() error {
	var errs []error
	for _, p := range s.programs() {
		errs = append(errs, p.Running())
	}
	return errors.Join(errs...)
}

func (s *Scene) programs() []*world.Process {
	var running []*world.Process
	if s.Namespaced() {
		all := []*world.Process{s.Controller.process, s.App.agent, s.Gateway.agent}
		if s.ambient != nil {
			all = append(all, s.ambient.node.Process, s.ambient.waypoint.agent)
		}
		for _, p := range all {
			if p != nil {
				running = append(running, p)
			}
		}
	} else if s.Up.process != nil {
		running = append(running, s.Up.process)
	}
	return running
}

// startOutside starts the outside with its names, each at an address of its own.
func (s *Scene) startOutside(at outside.Sockets, addrs []netip.Addr, httpPort, httpsPort uint16, nameServer netip.AddrPort) error {
	names := []string{externalHost, secondHost, unregisteredHost}
	names = append(names, usedOfMany()...)
	o, err := outside.Start(at, outside.Plan{
		Names: names, Addrs: addrs,
		HTTPPort: httpPort, HTTPSPort: httpsPort, NameServer: nameServer,
	})
	if err != nil {
		return err
	}
	s.Run.OnClose(o.Close)
	s.Outside = o
	s.external, s.moved, s.second, s.unregistered = addrs[0], addrs[1], addrs[2], addrs[3]
	o.Set(externalHost, ttl, s.external)
	o.Set(secondHost, ttl, s.second)
	o.Set(unregisteredHost, ttl, s.unregistered)
	return nil
}

// url is where a host of the outside serves a path by a scheme.
func (s *Scene) url(scheme, host, path string) string {
	port := s.Outside.HTTPPort
	if scheme == "https" {
		port = s.Outside.HTTPSPort
	}
	if (scheme == "http" && port == 80) || (scheme == "https" && port == 443) {
		return fmt.Sprintf("%s://%s%s", scheme, host, path)
	}
	return fmt.Sprintf("%s://%s:%d%s", scheme, host, port, path)
}
