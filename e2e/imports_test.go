package e2e

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/sallyport/sallyport/"

// direction is a rule about what packages may import directly. Patterns are import paths, those of this module
// without its name; "x/..." stands for x and everything below.
type direction struct {
	from   string   // who
	except []string // but not these
	not    []string // must not import
	unless []string // but may import these
}

// directions are the arrows of docs/architecture.md.
var directions = []direction{
	{from: "config/...", not: []string{"serviceentry/...", "xds/...", "egress/...", "sidecar/...", "dnsproxy/...", "cmd/..."}, except: []string{"config/admission"}},
	// What several objects mean together is the registry's to say; nothing that it imports leads back here.
	{from: "config/admission", not: []string{"xds/...", "egress/...", "sidecar/...", "dnsproxy/...", "cmd/..."}},
	{from: "serviceentry/...", not: []string{"config/source/...", "xds/...", "egress/...", "sidecar/...", "dnsproxy/...", "cmd/..."}},
	{from: "xds/...", not: []string{"egress/...", "sidecar/...", "dnsproxy/...", "cmd/..."}, unless: []string{"dnsproxy/name"}},
	{from: "dnsproxy/...", not: []string{"..."}, unless: []string{"dnsproxy/...", "config/inside"}},
	{from: "config/inside", not: []string{"..."}},
	{
		from: "egress/...", not: []string{"xds/...", "sidecar/...", "dnsproxy/...", "cmd/..."},
		unless: []string{"xds/accesslog"},
	},
	{
		from: "sidecar/...", except: []string{"sidecar/inject"}, not: []string{"config/...", "serviceentry/...", "xds/...", "egress/...", "cmd/..."},
		unless: []string{"egress/audit/record", "egress/audit/spool", "egress/audit/ingest/...", "egress/audit/envoylog/...", "xds/ondemand", "xds/netcap", "config/inside"},
	},
	// Injection has the pod as its subject but runs in the controller, so it answers reviews as the other webhook does.
	{
		from: "sidecar/inject", not: []string{"config/...", "serviceentry/...", "xds/...", "egress/...", "cmd/..."},
		unless: []string{"config/admission/review"},
	},
	{from: "config/admission/review", not: []string{"..."}},
	// Words that control plane and data plane share, which is why they may link nothing.
	{from: "xds/netcap", not: []string{"..."}},
	{from: "xds/ondemand", not: []string{"..."}},
	{from: "xds/accesslog", not: []string{"..."}},
	{from: "egress/audit/record", not: []string{"..."}},
	{
		from: "...", except: []string{"config/source/kube/...", "sidecar/nodeguard/watch"},
		not: []string{"k8s.io/client-go/informers/...", "k8s.io/client-go/tools/cache/...", "istio.io/client-go/pkg/informers/..."},
	},
	{
		from: "...", except: []string{"xds/translate/...", "sidecar/bootstrap/..."},
		not: []string{"github.com/envoyproxy/go-control-plane/envoy/config/..."},
		// Data that Envoy sends, and its own description of itself, are not configuration.
		unless: []string{
			"github.com/envoyproxy/go-control-plane/envoy/config/core/...",
			"github.com/envoyproxy/go-control-plane/envoy/config/accesslog/...",
		},
	},
	// A command wires packages together; nothing builds on a command, and the story uses programs by their command
	// lines only.
	{from: "...", except: []string{"cmd/..."}, not: []string{"cmd/..."}},
	{from: "e2e/...", not: []string{"..."}, unless: []string{"e2e/...", "egress/audit/record"}},
}

func TestImportDirections(t *testing.T) {
	for _, p := range load(t, module+"...") {
		name := strings.TrimPrefix(p.PkgPath, module)
		for _, d := range directions {
			if !matches(d.from, name) || matchesAny(d.except, name) {
				continue
			}
			for imported := range p.Imports {
				ours, isOurs := strings.CutPrefix(imported, module)
				if isOurs {
					imported = ours
				}
				if forbidden(d, imported, isOurs) {
					t.Errorf("%s imports %s: see docs/architecture.md for the direction of imports", name, imported)
				}
			}
		}
	}
}

// TestAgentStaysSmall: the data plane's binary is in every pod.
func TestAgentStaysSmall(t *testing.T) {
	linked := map[string]bool{}
	packages.Visit(load(t, module+"cmd/sallyport-agent"), func(p *packages.Package) bool {
		linked[p.PkgPath] = true
		return true
	}, nil)
	for path := range linked {
		for _, heavy := range []string{"k8s.io/...", "istio.io/client-go/...", "github.com/duckdb/...", module + "serviceentry/...", module + "xds/translate/..."} {
			if matches(heavy, path) {
				t.Errorf("the agent links %s", path)
			}
		}
	}
}

// forbidden says whether the rule forbids the import. The pattern "..." stands for this module.
func forbidden(d direction, imported string, isOurs bool) bool {
	if matchesAny(d.unless, imported) {
		return false
	}
	return slices.ContainsFunc(d.not, func(pattern string) bool {
		if pattern == "..." {
			return isOurs
		}
		return matches(pattern, imported)
	})
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

func matches(pattern, path string) bool {
	prefix, below := strings.CutSuffix(pattern, "...")
	if !below {
		return pattern == path
	}
	return strings.HasPrefix(path, prefix) || path+"/" == prefix
}

func load(t *testing.T, pattern string) []*packages.Package {
	t.Helper()
	found, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps}, pattern)
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(found) > 0 {
		t.Fatal("packages do not load")
	}
	return found
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"xds/...", "xds", true}, {"xds/...", "xds/serve", true}, {"xds/...", "xdsx", false},
		{"xds", "xds/serve", false}, {"xds", "xds", true}, {"...", "anything", true},
	} {
		if got := matches(c.pattern, c.path); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.pattern, c.path, got)
		}
	}
}
