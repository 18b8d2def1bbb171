package translate_test

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestOwnTables makes random meshes: the tables of a namespace at a node are, but for their names, those of a proxy that were the namespace's alone; and
// what all share stays as it is.
func TestOwnTables(t *testing.T) {
	rows, apart := 0, 0
	for seed := range uint64(40) {
		world, cfg := registrytest.Mesh(seed)
		s, _ := registry.New(&cfg).Apply(world.Shuffled())
		class := translate.Classify(s, translate.Node{ID: "ztunnel~10.0.0.7~a.n~n.svc.cluster.local", Serves: strings.Join(registrytest.Namespaces, ","), OwnTables: true})
		made := translate.NewTranslator()
		common := class.Common()
		all, v := made.Build(s, common), made.Build(s, class)
		for _, kind := range resource.Types() {
			all.Walk(kind, func(r *resource.Resource) bool {
				if now, there := v.Get(kind, r.Name); !there || now.Version != r.Version {
					t.Errorf("seed %d: with tables of %s, %v %s is another one for all", seed, class.Own, kind, r.Name)
				}
				return true
			})
		}
		for _, ns := range class.OwnTables() {
			common.View = ns
			r, a := (&ownTables{t, seed, ns, v, made.Build(s, common)}).hold()
			rows, apart = rows+r, apart+a
		}
	}
	if rows < 100 || apart < 10 {
		t.Fatalf("%d rows and %d clusters: too little is tried", rows, apart)
	}
}

// ownTables is a namespace's at a node, and the view of a proxy of its own.
type ownTables struct {
	*testing.T
	seed     uint64
	ns       string
	v, alone *translate.View
}

func (o *ownTables) hold() (rows, apart int) {
	for _, kind := range resource.Types() {
		o.alone.Walk(kind, func(want *resource.Resource) bool {
			as, got := o.find(kind, want.Name)
			if got == nil {
				o.Errorf("seed %d: %s has no %v %s", o.seed, o.ns, kind, as)
				return true
			}
			if kind == resource.VirtualHost {
				rows++
			} else if kind == resource.Cluster && wire.HostOf(as) != "" && as != want.Name {
				apart++
			}
			if x, y := o.text(got), o.text(want); x != y {
				o.Errorf("seed %d: %s has something else as %v %s (-alone +own):\n%s", o.seed, o.ns, kind, as, cmp.Diff(y, x))
			}
			return true
		})
	}
	o.v.Walk(resource.VirtualHost, func(r *resource.Resource) bool {
		table, host, _ := strings.Cut(r.Name, "/")
		if shared := wire.SharedName(table); table == wire.OwnName(o.ns, shared) {
			if _, there := o.alone.Get(resource.VirtualHost, wire.VhostName(shared, host)); !there {
				o.Errorf("seed %d: %s has a row %s, and alone none", o.seed, o.ns, r.Name)
			}
		}
		return true
	})
	return rows, apart
}

// find finds what stands for a resource in the namespace's tables.
func (o *ownTables) find(kind resource.Type, plain string) (as string, r *resource.Resource) {
	switch as = plain; kind {
	case resource.VirtualHost:
		table, host, _ := strings.Cut(plain, "/")
		if table != wire.PodsTable { // which is one of all
			as = wire.VhostName(wire.OwnName(o.ns, table), host)
		}
	case resource.Name:
		if r, own := o.v.Get(kind, o.ns+"/"+plain); own {
			return plain, r
		}
	case resource.Listener:
		if plain == ambient.PodOutbound {
			as = ambient.OutboundOf(o.ns)
		} else if wire.IsDecide(plain) {
			as = wire.OwnName(o.ns, plain)
		}
	case resource.Cluster, resource.Endpoints, resource.OnDemandCluster:
		if own, there := o.v.Get(kind, wire.OwnCluster(o.ns, plain)); there {
			return wire.OwnCluster(o.ns, plain), own
		}
	case resource.Route, resource.Scope:
		if plain != wire.CatchAllDecide && plain != wire.PodsTable {
			as = wire.OwnName(o.ns, plain)
		}
	}
	r, _ = o.v.Get(kind, as)
	return as, r
}

// text is a resource without the names that are the namespace's; where a cluster is apart, rows have to lead to that one.
func (o *ownTables) text(r *resource.Resource) string {
	if r.Type == resource.Name {
		n, err := name.Unmarshal(r.Value())
		must(err)
		n.Namespace = ""
		return string(n.Marshal())
	}
	m, err := r.Any().UnmarshalNew()
	must(err)
	if vh, is := m.(*routev3.VirtualHost); is {
		envoy.RenameClusters(vh.Routes, func(cluster string) string {
			if as, there := o.find(resource.Cluster, cluster); there != nil {
				return as
			}
			return cluster
		})
	}
	text := prototext.MarshalOptions{Multiline: true}.Format(m)
	lines := strings.Split(strings.NewReplacer(" + '~"+o.ns+"'", "", "~"+o.ns, "", "own."+o.ns+".", "").Replace(text), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ") // its spaces are not to be relied on
	}
	return strings.Join(slices.Clip(lines), "\n")
}
