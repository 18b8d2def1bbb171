package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// programmed is the side that the control plane programs.
type programmed struct {
	side
	scene   *story.Scene
	control []int // the controller and its audit store
}

func newProgrammed(ctx context.Context, run *world.Run, found story.Programs, self string) (*programmed, error) {
	scene, err := story.InNamespaces(ctx, run, found)
	if err != nil {
		return nil, err
	}
	p := &programmed{scene: scene, side: side{name: "programmed", world: scene.World, self: self}}
	scene.Outside.Set(host, time.Minute, serverAddr)
	if err := errors.Join(p.serve(run, scene.Outside.CA), scene.SetPolicy(ctx, "REGISTRY_ONLY")); err != nil {
		return nil, err
	}
	for _, h := range []*world.Host{scene.World.App, scene.World.Gateway} {
		envoy, err := only(h, "envoy")
		if err != nil {
			return nil, err
		}
		agent, err := parent(envoy)
		if err != nil {
			return nil, err
		}
		p.envoys, p.agents = append(p.envoys, envoy), append(p.agents, agent)
	}
	if p.control, err = pids(scene.World.Control); err != nil {
		return nil, err
	}
	run.OnClose(func() error { return p.rest(false) })
	return p, p.place()
}

// rest stops the controller and its audit store, or lets them go on.
func (p *programmed) rest(still bool) error {
	signal := syscall.SIGCONT
	if still {
		signal = syscall.SIGSTOP
	}
	var errs []error
	for _, pid := range p.control {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

const entry = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %q, namespace: default}
spec:
  hosts: [%q]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
`

// register makes a mesh of so many hosts, with the measured one among them, and waits until all proxies have it.
func (p *programmed) register(ctx context.Context, hosts int) error {
	var all strings.Builder
	fmt.Fprintf(&all, entry, "measured", host)
	last := host
	for i := 1; i < hosts; i++ {
		last = fmt.Sprintf("host-%d.of-%d.test", i, hosts)
		fmt.Fprintf(&all, entry, fmt.Sprintf("host-%d", i), last)
	}
	if err := p.rest(false); err != nil {
		return err
	}
	if err := p.scene.Config.Write("measured.yaml", all.String()); err != nil {
		return err
	}
	return world.Within(ctx, time.Minute, func() error {
		out, err := p.scene.Call(ctx, "proxies", "-o", "json")
		if err != nil {
			return err
		}
		var proxies []struct {
			ID     string
			Synced bool
		}
		if err := json.Unmarshal(out, &proxies); err != nil {
			return err
		}
		for _, proxy := range proxies {
			given, err := p.scene.Call(ctx, "config", proxy.ID)
			if err != nil {
				return err
			}
			if !proxy.Synced || !bytes.Contains(given, []byte(last)) {
				return fmt.Errorf("%s does not have %s yet", proxy.ID, last)
			}
		}
		return nil
	})
}

// have gives the mesh the objects in a file, before hosts are registered.
func (p *programmed) have(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return errors.Join(p.rest(false), p.scene.Config.Write("beside.yaml", string(text)))
}

// pids are the processes on a host.
func pids(h *world.Host) ([]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	out, err := world.Output(exec.CommandContext(ctx, "ip", "netns", "pids", h.Namespace()))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, field := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(field); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
}

// only finds the one process on a host that runs a program.
func only(h *world.Host, program string) (int, error) {
	all, err := pids(h)
	if err != nil {
		return 0, err
	}
	for _, pid := range all {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == program {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no %s runs on %s", program, h.Name)
}
