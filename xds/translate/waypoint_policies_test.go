package translate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// atWaypoint are the pods of sharedWaypoint's waypoint.
var atWaypoint = translate.Node{ID: "waypoint~10.1.2.1~shared-1.infra~infra.svc.cluster.local", Namespace: "infra", Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "shared"}}

// behindShared is an entry for a host behind that waypoint.
func behindShared(name, host string) string {
	return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + name + ", namespace: team-a, labels: {istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra}}\n" +
		"spec: {hosts: [" + host + "], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}\n"
}

// TestWaypointPoliciesFollowHosts holds that an edit of a policy is sent to the waypoints before whose hosts it says something else than before, and to no others.
func TestWaypointPoliciesFollowHosts(t *testing.T) {
	const namespaces = 500
	cfg := mesh.Default()
	r := registry.New(&cfg)
	s, _ := r.Apply(changedBy(t, sharedWaypoint))
	kind := translate.PolicedBy(s, atWaypoint)
	var all []config.Change
	for i := range 2 * namespaces {
		all = append(all, policyAt(fmt.Sprintf("n%d", i%namespaces), i/namespaces, 1))
	}
	s, _ = r.Apply(all)
	v := translate.BuildPolicies(s, kind)
	whole := 0
	v.Walk(resource.Extension, func(r *resource.Resource) bool { whole += r.Size(); return true })
	t.Logf("with policies in %d namespaces, for other hosts, a waypoint has %d bytes", namespaces, whole)
	edit := func(what string, change config.Change, sent bool) {
		t.Helper()
		next, changed := r.Apply([]config.Change{change})
		now, refs := translate.UpdatePolicies(v, next, kind, changed)
		bytes := sizeOf(now, refs)
		if (bytes > 0) != sent {
			t.Errorf("%s: %v are sent, of %d bytes", what, refs, bytes)
		}
		t.Logf("%s: %d bytes", what, bytes)
		v = now
	}
	edit("rules for other hosts", policyAt("n400", 0, 2), false)
	edit("a policy for other hosts, that comes", policyAt("n400", 7, 2), false)
	edit("and goes", config.Change{Key: policyAt("n400", 7, 2).Key}, false)
	allowed := policyAt("n400", 0, 3)
	allowed.Object.Spec.(*v1alpha1.EgressPolicy).Rules[3].Hosts = []string{"*.out.test", "host-1.test"}
	edit("a rule for the host", allowed, true)
	edit("without it", policyAt("n400", 0, 4), true)
	edit("the first of a namespace, which closes the host", policyAt("other", 0, 1), true)
	edit("the root namespace's", policyAt(cfg.RootNamespace, 0, 1), true)
	edit("the root namespace's rules for other hosts", policyAt(cfg.RootNamespace, 0, 2), false)
}

// TestWaypointWithoutHostsOutside: a waypoint that stands before no host outside has no levels, and closes one that comes until it has.
func TestWaypointWithoutHostsOutside(t *testing.T) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	s, _ := r.Apply(append(changedBy(t, sharedWaypoint), policyAt("team-a", 0, 1)))
	kind := translate.PolicedBy(s, atWaypoint)
	v := translate.BuildPolicies(s, kind)
	own := func(v *translate.View) string {
		r, there := v.Get(resource.Extension, envoy.FilterOwn)
		if !there {
			t.Fatal("there is no level")
		}
		return string(r.Value())
	}
	of := atWaypoint
	of.Labels = nil
	if none := own(translate.BuildPolicies(s, translate.PolicedBy(s, of))); strings.Contains(none, "team-a/p0") {
		t.Errorf("pods of no Gateway have levels: %q", none)
	}
	open := own(v)
	if !strings.Contains(open, "team-a/p0") {
		t.Errorf("team-a's policy is not in it: %q", open)
	}
	entry := config.Change{Key: config.Key{Kind: config.KindServiceEntry, Namespace: "team-a", Name: "out"}}
	s, changed := r.Apply([]config.Change{entry})
	v, refs := translate.UpdatePolicies(v, s, kind, changed)
	if closed := own(v); strings.Contains(closed, "team-a/p0") || !strings.Contains(closed, "MeshConfig/istio-system/mesh|namespace") || len(refs) == 0 {
		t.Errorf("without hosts outside: %q, and %v are sent", closed, refs)
	}
	s, changed = r.Apply([]config.Change{policyAt("team-a", 0, 2)})
	if v, refs = translate.UpdatePolicies(v, s, kind, changed); len(refs) > 0 {
		t.Errorf("without hosts outside %v are sent", refs)
	}
	s, changed = r.Apply(changedBy(t, behindShared("back", "b.out.test")))
	v, refs = translate.UpdatePolicies(v, s, kind, changed)
	if again := own(v); !strings.Contains(again, "team-a/p0") || len(refs) == 0 {
		t.Errorf("with one again: %q, and %v are sent", again, refs)
	}
}

// TestWaypointPolicyUpdates holds that what a waypoint is given after random edits, of policies and of which hosts it stands before, is what it would be
// given if it came now, and that the references name what differs.
func TestWaypointPolicyUpdates(t *testing.T) {
	for seed := range uint64(10) {
		cfg := mesh.Default()
		r := registry.New(&cfg)
		s, _ := r.Apply(changedBy(t, sharedWaypoint))
		kind, rng := translate.PolicedBy(s, atWaypoint), rand.New(rand.NewPCG(seed, 5))
		v := translate.BuildPolicies(s, kind)
		for step, changes := range policyEdits(seed) {
			if rng.IntN(3) == 0 {
				text := behindShared(fmt.Sprint("e", rng.IntN(2)), one(rng, []string{"a.test", "x.b.test", "other.test"}))
				if rng.IntN(2) == 0 {
					text = "-" + text
				}
				changes = append(changes, changedBy(t, text)...)
			}
			was := policyVersions(v)
			next, changed := r.Apply(changes)
			var refs []resource.Ref
			v, refs = translate.UpdatePolicies(v, next, kind, changed)
			now, fresh := policyVersions(v), policyVersions(translate.BuildPolicies(next, kind))
			for _, ref := range differing(now, fresh) {
				t.Fatalf("seed %d, step %d, after %v: %v is %q, and made from nothing %q (changed: %v)", seed, step, changes[0].Key, ref, now[ref], fresh[ref], changed.Policies)
			}
			for _, ref := range differing(was, now) {
				if !slices.Contains(refs, ref) {
					t.Fatalf("seed %d, step %d, after %v: %v differs, and is not named", seed, step, changes[0].Key, ref)
				}
			}
		}
	}
}
