package serve_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/xds/health"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// machineLog notes what is told of machines.
type machineLog struct {
	mu     sync.Mutex
	told   []string
	labels map[config.Key]map[string]string
}

func (m *machineLog) Labels(p machine.Proxy) (map[string]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	labels, ok := m.labels[p.GroupKey()]
	return labels, ok
}

func (m *machineLog) label(group config.Key, labels map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.labels = map[config.Key]map[string]string{group: labels}
}

func (m *machineLog) note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, text)
}

func (m *machineLog) Came(p machine.Proxy) { m.note("came " + p.Group + " " + p.Host) }
func (m *machineLog) Went(p machine.Proxy) { m.note("went " + p.Group + " " + p.Host) }
func (m *machineLog) Healthy(p machine.Proxy, problem string) {
	m.note("health " + p.Host + " " + problem)
}

func (m *machineLog) is(want ...string) func() bool {
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return slices.Equal(m.told, want)
	}
}

// TestMachines: who follows machines hears of their streams and their health, and their agents of their group's probe; of others nobody hears.
func TestMachines(t *testing.T) {
	l := newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		if n.Machine != nil {
			n.Machine.Namespace = n.Namespace
		}
		return n, nil
	})
	probes, group := map[string]string{}, config.Key{Kind: config.KindWorkloadGroup, Namespace: "shop", Name: "db"}
	var mu sync.Mutex
	set := func(probe string) {
		mu.Lock()
		probes[group.String()] = probe
		mu.Unlock()
		l.cache.GroupsChanged([]config.Key{group})
	}
	l.cache.FollowProbes(func(key config.Key) []byte {
		mu.Lock()
		defer mu.Unlock()
		if p := probes[key.String()]; p != "" {
			return []byte(p)
		}
		return nil
	})
	pod := l.connect(node("app", "shop"))
	pod.ask(resource.Probe)
	if a := pod.take(resource.Probe); len(a.names()) > 0 {
		t.Errorf("a pod has the probe %v", a.names())
	}
	pod.send(&discovery.DeltaDiscoveryRequest{TypeUrl: health.Type})

	n := node("vm", "shop")
	n.Metadata.Fields["AUTO_REGISTER_GROUP"] = structpb.NewStringValue("db")
	vm := l.connect(n)
	vm.ask(resource.Probe)
	if a := vm.take(resource.Probe); len(a.names()) > 0 {
		t.Errorf("a probe that is not there: %v", a.names())
	}
	set("one")
	first := vm.take(resource.Probe)
	set("one")
	vm.quiet()
	set("two")
	if a := vm.take(resource.Probe); !slices.Equal(a.names(), []string{health.ProbeName}) || a.versions[health.ProbeName] == first.versions[health.ProbeName] {
		t.Errorf("another probe: %+v", a)
	}
	set("")
	if a := vm.take(resource.Probe); !slices.Equal(a.removed, []string{health.ProbeName}) {
		t.Errorf("no probe: %+v", a)
	}
	pod.quiet()
	vm.send(&discovery.DeltaDiscoveryRequest{TypeUrl: health.Type, ErrorDetail: &rpcstatus.Status{Code: int32(codes.Internal), Message: "refused"}})
	vm.send(&discovery.DeltaDiscoveryRequest{TypeUrl: health.Type})
	l.becomes("told of its health", l.machines.is("came db vm", "health vm refused", "health vm "))
	vm.stop()
	l.becomes("told that it went", l.machines.is("came db vm", "health vm refused", "health vm ", "went db vm"))
}

// TestRelabelMachines: a machine has its group's labels as they are by now, and a pod its own, though both call themselves alike.
func TestRelabelMachines(t *testing.T) {
	l := newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		if n.Machine != nil {
			n.Machine.Namespace = n.Namespace
		}
		return n, nil
	}, append(inUse(),
		entry("default", "own", "own.test", httpPort), entry("shop", "theirs", "theirs.test", httpPort),
		sidecarObject("default", "narrow", map[string]string{"app": "web"}, "./*", "istio-system/*"))...)
	pod := l.subscribed("app", "db")
	n := node("app", "default", "app", "db")
	n.Metadata.Fields["AUTO_REGISTER_GROUP"] = structpb.NewStringValue("db")
	vm := l.connect(n).subscribe()

	l.cache.Relabel(map[string]map[string]string{"app.default": {"app": "web"}})
	if a := pod.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/theirs.test"}) {
		t.Errorf("the pod: %+v", a)
	}
	vm.quiet()

	group := config.Key{Kind: config.KindWorkloadGroup, Namespace: "default", Name: "db"}
	change := func(labels map[string]string) {
		l.machines.label(group, labels)
		l.cache.GroupsChanged([]config.Key{group})
	}
	change(map[string]string{"app": "db"}) // as they are
	vm.quiet()
	change(map[string]string{"app": "web"})
	if a := vm.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"80/theirs.test"}) {
		t.Errorf("the machine: %+v", a)
	}
	change(map[string]string{"app": "db"})
	if a := vm.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"80/theirs.test"}) {
		t.Errorf("the machine, again: %+v", a)
	}
	pod.quiet()
}
