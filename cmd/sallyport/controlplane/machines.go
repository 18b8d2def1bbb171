package controlplane

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/config/source/kube/joined"
	"github.com/sallyport/sallyport/config/source/machines"
	"github.com/sallyport/sallyport/xds/health"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/workload"
	"github.com/sallyport/sallyport/xds/translate"
)

// machinesFolder is where, in the data folder, those are that have joined.
const machinesFolder = "machines"

// maxProblem is how many bytes are kept of what a machine says of its health.
const maxProblem = 256

// joining is who keeps the machines that join by WorkloadGroups.
type joining struct {
	*machines.Keeper
	disk *machines.Disk // nil in a cluster
}

// Healthy has the shape that serve.Machines asks for.
func (j joining) Healthy(p machine.Proxy, problem string) {
	if len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "…"
	}
	j.Tell(p, machines.Health{Known: true, Well: problem == "", Why: problem})
}

// keepMachines makes it, with what an earlier run knew.
func (p *plane) keepMachines() (joining, error) {
	if c := p.cfg.Cluster; c != nil {
		replica := machine.Holder(c.Namespace, c.Replica)
		store, err := joined.New(c.REST, replica)
		if err != nil {
			return joining{}, err
		}
		j := joining{Keeper: machines.New(p.log, store)}
		j.Replica, j.Alive = replica, func(namespace, pod string) bool {
			_, _, _, ok := p.known.Pod(namespace, pod)
			return ok
		}
		if p.cfg.MachineGrace > 0 {
			j.Grace = p.cfg.MachineGrace
		}
		return j, nil
	}
	disk := machines.NewDisk(filepath.Join(p.cfg.DataDir, machinesFolder))
	j := joining{machines.New(p.log, disk), disk}
	if p.cfg.MachineGrace > 0 {
		j.Grace = p.cfg.MachineGrace
	}
	j.Restore(disk.Load(p.log))
	return j, nil
}

// batches is what machines change of the configuration themselves: nothing in a cluster, where its API server tells of it.
func (j joining) batches() <-chan []config.Change {
	if j.disk == nil {
		return nil
	}
	return j.disk.Batches()
}

// beginMachines is called once, after the first batch of the configuration: machines of an earlier run are part of it.
func (p *plane) beginMachines(ctx context.Context) {
	if d := p.machines.disk; d != nil {
		if changes := d.Adopt(p.machines.InForce()); len(changes) > 0 {
			p.apply(changes)
		}
	}
	go p.machines.Run(ctx)
}

// ownMachine lets a caller be a machine of its own account, at the address that its connection comes from.
func (p *plane) ownMachine(ctx context.Context, id identity.ID, n translate.Node) (translate.Node, error) {
	if err := n.Machine.Check(); err != nil {
		return n, status.Error(codes.InvalidArgument, "xds: "+err.Error())
	}
	if err := workload.CheckID(n.ID); err != nil {
		return n, status.Errorf(codes.InvalidArgument, "xds: node id %q: %v", n.ID, err)
	}
	m := *n.Machine
	m.Namespace, m.Account, m.Source = id.Namespace, id.ServiceAccount, sourceOf(ctx)
	if of := identity.PodFromContext(ctx); of.Name != "" {
		return n, status.Errorf(codes.PermissionDenied, "xds: %s may not join %s as a machine: its token is that of the pod %q", id, m.GroupKey(), of.Name)
	}
	if pod := p.known.podAt(m.Address); pod != nil {
		return n, status.Errorf(codes.PermissionDenied, "xds: %s may not join %s at %s: that is the address of %s", id, m.GroupKey(), m.Address, pod.Key)
	}
	labels, err := p.machines.Admit(m)
	switch {
	case errors.As(err, new(machines.NoGroup)):
		return n, status.Error(codes.FailedPrecondition, "xds: "+err.Error())
	case err != nil:
		return n, status.Error(codes.PermissionDenied, "xds: "+err.Error())
	}
	n.Labels, n.Machine, n.Forward = labels, &m, ""
	return n, nil
}

// sourceOf is where a call comes from; the zero address where nobody knows.
func sourceOf(ctx context.Context) netip.Addr {
	from, ok := peer.FromContext(ctx)
	if !ok || from.Addr == nil {
		return netip.Addr{}
	}
	at, err := netip.ParseAddrPort(from.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// Probe is what the agents of a group's machines are to ask; nil for nothing.
func (j joining) Probe(group config.Key) []byte {
	g := j.Group(group)
	if g == nil || g.Spec.(*networking.WorkloadGroup).Probe == nil {
		return nil
	}
	return probeOf(g.Spec.(*networking.WorkloadGroup).Probe).Marshal()
}

// groupsIn are the WorkloadGroups that changes are of.
func groupsIn(changes []config.Change) (out []config.Key) {
	for _, c := range changes {
		if c.Key.Kind == config.KindWorkloadGroup {
			out = append(out, c.Key)
		}
	}
	return out
}

// probeOf is a probe as agents are told of it.
func probeOf(p *networking.ReadinessProbe) health.Probe {
	out := health.Probe{
		InitialDelaySeconds: p.InitialDelaySeconds, TimeoutSeconds: p.TimeoutSeconds, PeriodSeconds: p.PeriodSeconds,
		SuccessThreshold: p.SuccessThreshold, FailureThreshold: p.FailureThreshold,
	}
	switch m := p.HealthCheckMethod.(type) {
	case *networking.ReadinessProbe_HttpGet:
		out.HTTPGet = &health.HTTPGet{Path: m.HttpGet.GetPath(), Port: m.HttpGet.GetPort(), Scheme: m.HttpGet.GetScheme()}
		for _, h := range m.HttpGet.GetHttpHeaders() {
			out.HTTPGet.Headers = append(out.HTTPGet.Headers, health.Header{Name: h.GetName(), Value: h.GetValue()})
		}
	case *networking.ReadinessProbe_TcpSocket:
		out.TCPSocket = &health.Port{Port: m.TcpSocket.GetPort()}
	case *networking.ReadinessProbe_Grpc:
		out.GRPC = &health.GRPC{Port: m.Grpc.GetPort(), Service: m.Grpc.GetService()}
	case *networking.ReadinessProbe_Exec:
		out.Exec = &health.Exec{Command: m.Exec.GetCommand()}
	}
	return out
}

// joins says whether machines of an account may come with tokens that are bound to no pod.
func (p *plane) joins(id identity.ID) bool { return p.machines.Joins(id.Namespace, id.ServiceAccount) }
