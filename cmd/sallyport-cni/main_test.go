package main

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestLittleIsInIt: a runtime starts the program for each pod that comes or goes, and each package in it begins with it.
func TestLittleIsInIt(t *testing.T) {
	const own = "github.com/sallyport/sallyport/"
	few := []string{"github.com/containernetworking/", "github.com/vishvananda/netns", "golang.org/x/sys/", own + "cmd/sallyport-cni", own + "sidecar/node/cni"}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps}, ".")
	if err != nil {
		t.Fatal(err)
	}
	packages.Visit(loaded, func(p *packages.Package) bool {
		foreign := strings.Contains(strings.Split(p.PkgPath, "/")[0], ".")
		if foreign && !slices.ContainsFunc(few, func(prefix string) bool { return strings.HasPrefix(p.PkgPath, prefix) }) {
			t.Errorf("%s is in it", p.PkgPath)
		}
		return true
	}, nil)
}
