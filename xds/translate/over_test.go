package translate_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestSeesAsEverybody makes random meshes: where a namespace is said to see in a host what everybody sees, it does, and a view over
// everybody's is the one that is made from nothing.
func TestSeesAsEverybody(t *testing.T) {
	t.Parallel()
	meshes := 400
	if registrytest.Raced {
		meshes = 40
	}
	alike := 0
	for seed := range meshes {
		world, cfg := registrytest.Mesh(uint64(seed))
		s, _ := registry.New(&cfg).Apply(world.Shuffled())
		alike += holdAlike(t, s, registrytest.Namespaces)
	}
	if alike < meshes {
		t.Fatalf("of %d meshes %d hosts are seen alike by some namespace: nothing is tried", meshes, alike)
	}
}

// TestSeesAtItsAddress is the same in a mesh of so many hosts that some have each other's made-up addresses.
func TestSeesAtItsAddress(t *testing.T) {
	s := filled(2000).Snapshot()
	var apart []string
	for i := range 50 {
		if ns := fmt.Sprintf("ns-%d", i); s.View(ns) != "" {
			apart = append(apart, ns)
		}
	}
	if len(apart) == 0 {
		t.Fatal("no namespace sees anything at another address than everybody: nothing is tried")
	}
	holdAlike(t, s, apart[:min(len(apart), 2)])
}

// holdAlike says how many hosts namespaces see as everybody does.
func holdAlike(t *testing.T, s *registry.Snapshot, namespaces []string) (alike int) {
	t.Helper()
	everybody := resolve.SidecarIn(s, "", config.Key{}, "", registry.GivesSecrets)
	made := translate.NewTranslator()
	common := made.Build(s, translate.Class{})
	for _, ns := range namespaces {
		who := resolve.SidecarIn(s, ns, config.Key{}, "", registry.GivesSecrets)
		for host, list := range s.Hosts() {
			if !who.SeesAsEverybody(host, list) {
				continue
			}
			alike++
			theirs, seen := everybody.Host(host)
			mine, mineSeen := who.Host(host)
			if seen != mineSeen || !reflect.DeepEqual(mine, theirs) {
				t.Fatalf("%s sees something else of %s:\n%+v\nand everybody\n%+v", ns, host, mine, theirs)
			}
		}
		class := translate.Class{View: ns}
		over, alone := made.BuildOver(common, s, class), translate.NewTranslator().Build(s, class)
		if digest(over) != digest(alone) {
			t.Fatalf("%s (-alone +over):\n%s", ns, cmp.Diff(versions(alone), versions(over)))
		}
	}
	return alike
}
