package story

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
)

// loopbackAddrs are the outside's: on Linux all of 127.0.0.0/8 is this host.
var loopbackAddrs = []netip.Addr{
	netip.MustParseAddr("127.0.0.1"),
	netip.MustParseAddr("127.0.0.2"),
	netip.MustParseAddr("127.0.0.3"),
	netip.MustParseAddr("127.0.0.66"),
}

// Up is a running `sallyport up`.
type Up struct {
	proxyAddr   string
	consoleAddr string
	dataDir     string
	process     *world.Process // nil when it does not run
}

// OnLoopback sets the scene without root: `sallyport up`, and an outside on loopback with ports that are free.
func OnLoopback(ctx context.Context, run *world.Run, programs Programs) (*Scene, error) {
	s := &Scene{Run: run, Programs: programs}
	s.client = run.Command
	var err error
	if s.Config, err = newConfigDir(run.Dir); err != nil {
		return nil, err
	}
	if err := s.startOutside(outside.Loopback{}, loopbackAddrs, 0, 0, netip.AddrPortFrom(loopbackAddrs[0], 0)); err != nil {
		return nil, err
	}
	if err := errors.Join(
		os.WriteFile(s.caFile(), s.Outside.CA.PEM(), 0o644),
		s.Config.Write("external.yaml", s.entry("external", externalHost)),
	); err != nil {
		return nil, err
	}
	return s, s.startUp(ctx)
}

// startUp starts `sallyport up` and waits until its proxy accepts connections.
func (s *Scene) startUp(ctx context.Context) error {
	proxyAddr, err := freeport.Addr()
	if err != nil {
		return err
	}
	consoleAddr, err := freeport.Addr()
	if err != nil {
		return err
	}
	s.Up = &Up{proxyAddr: proxyAddr, consoleAddr: consoleAddr, dataDir: filepath.Join(s.Run.Dir, "data")}
	p, err := s.Run.Start("up", "env", "SSL_CERT_FILE="+s.caFile(),
		s.Programs.Sallyport, "up", s.Config.Path, "--proxy-addr", proxyAddr, "--console-addr", consoleAddr,
		"--data", s.Up.dataDir, "--dns-server", s.Outside.NameServer.String(),
		"--envoy", s.Programs.Envoy, "--agent", s.Programs.Agent)
	if err != nil {
		return err
	}
	s.Up.process = p
	return world.Within(ctx, readyWithin, func() error {
		if err := p.Running(); err != nil {
			return err
		}
		c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", proxyAddr)
		if err != nil {
			return fmt.Errorf("`sallyport up` is not ready (log: %s): %w", p.Log, err)
		}
		return c.Close()
	})
}

// sallyport calls the operator's program where the control plane is.
func (s *Scene) sallyport(ctx context.Context, args ...string) ([]byte, error) {
	if s.Namespaced() {
		return s.Controller.run(ctx, args...)
	}
	return world.Output(s.Run.Command(ctx, append([]string{s.Programs.Sallyport}, args...)...))
}

// dataDir is the control plane's.
func (s *Scene) dataDir() string {
	if s.Namespaced() {
		return s.Controller.dataDir
	}
	return s.Up.dataDir
}
