package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/sallyport/sallyport/e2e/cluster/pki"
	"github.com/sallyport/sallyport/e2e/tools"
)

// Names of the images. Those of Sallyport are what the chart installs.
const (
	Controller = "sallyport"
	Proxy      = "sallyport-proxy"
	Node       = "sallyport-node"
	Iceberg    = "sallyport-iceberg"
	App        = "sallyport-e2e-app"  // package app: server and client of tests
	Curl       = "sallyport-e2e-curl" // the same with curl and a shell
	Pause      = "sallyport-e2e-pause"
	CoreDNS    = "sallyport-e2e-coredns"
	Echo       = "sallyport-e2e-echo"      // the Gateway API's server of its conformance suite
	MeshEcho   = "sallyport-e2e-mesh-echo" // Istio's server and client, for what the suite asks from pod to pod
)

// All are the images that tests use in pods of their own; System are those that the cluster itself needs.
var (
	All    = []string{Controller, Proxy, Node, App, Curl}
	System = []string{Pause, CoreDNS}
)

// Shipped are the images that the chart installs, and that `make images` writes.
var Shipped = []string{Controller, Proxy, Node, Iceberg}

// ErrNotBuilt is in the error about an image whose program was not built.
var ErrNotBuilt = errors.New("the program is missing")

// ErrNoSource is in the error about an image whose program this checkout does not have.
var ErrNoSource = errors.New("there is no such program in this checkout")

// recipe says what an image is made of: layers, those that change least first.
type recipe struct {
	title      string // of an image that is shipped
	entrypoint []string
	user       string
	layers     func(ctx context.Context, b *builder) ([][]file, error)
}

var recipes = map[string]recipe{
	Controller: {
		title:      "Sallyport's control plane and audit server",
		entrypoint: []string{"/usr/local/bin/sallyport"}, user: serverUser,
		layers: func(_ context.Context, b *builder) ([][]file, error) {
			program, err := b.built("sallyport")
			if err != nil {
				return nil, err
			}
			libraries, err := b.system.libraries(program.From)
			return [][]file{append(base(), libraries...), {program}}, err
		},
	},
	Proxy: {
		title:      "Sallyport's data plane: Envoy and its agent",
		entrypoint: []string{"/usr/local/bin/sallyport-agent"}, user: proxyUser,
		layers: func(_ context.Context, b *builder) ([][]file, error) {
			return b.withEnvoy("sallyport-agent")
		},
	},
	Node: {
		title:      "Sallyport's side of a node: its guard, and the proxy of its pods without sidecars",
		entrypoint: []string{"/usr/local/bin/sallyport-node"}, user: rootUser, // it writes rules of the node's and of pods' networks
		layers: func(_ context.Context, b *builder) ([][]file, error) {
			return b.withEnvoy("sallyport-node", "sallyport-cni") // which it installs on the node
		},
	},
	Iceberg: {
		title:      "Keeps an Iceberg table of the audit log's lake",
		entrypoint: []string{"/usr/local/bin/sallyport-iceberg"}, user: serverUser,
		layers: func(_ context.Context, b *builder) ([][]file, error) {
			program, err := b.built("sallyport-iceberg")
			return [][]file{base(), {program}}, err
		},
	},
	App: {entrypoint: []string{"/usr/local/bin/app"}, user: "1000:1000", layers: func(ctx context.Context, b *builder) ([][]file, error) {
		program, err := b.static(ctx, "e2e/cluster/app", "app")
		return [][]file{base(), {program}}, err
	}},
	Curl: {entrypoint: []string{"/usr/local/bin/app"}, user: "1000:1000", layers: func(ctx context.Context, b *builder) ([][]file, error) {
		program, err := b.static(ctx, "e2e/cluster/app", "app")
		if err != nil {
			return nil, err
		}
		shell, err := b.system.programs("sh", "curl", "sleep", "cat", "ls", "id", "env", "getent")
		return [][]file{append(base(), shell...), {program}}, err
	}},
	Echo: {entrypoint: []string{"/usr/local/bin/echo-basic"}, user: "65532:65532", layers: func(ctx context.Context, b *builder) ([][]file, error) {
		path, err := b.compile(ctx, "sigs.k8s.io/gateway-api/conformance/echo-basic", "echo-basic")
		return [][]file{base(), {{Path: "/usr/local/bin/echo-basic", From: path, Mode: 0o755}}}, err
	}},
	MeshEcho: {entrypoint: []string{"/usr/local/bin/server"}, user: "65532:65532", layers: func(_ context.Context, _ *builder) ([][]file, error) {
		programs := []file{}
		for _, name := range []string{"server", "client"} {
			path, err := tools.Cached("istioecho", name)
			if err != nil {
				return nil, err
			}
			programs = append(programs, file{Path: "/usr/local/bin/" + name, From: path, Mode: 0o755})
		}
		ca, err := pki.New("echo")
		if err != nil {
			return nil, err
		}
		pair, err := ca.Issue(pki.Holder{Name: "echo"})
		return [][]file{base(), programs, {
			{Path: "/cert.crt", Content: string(pair.Cert), Mode: 0o644}, {Path: "/cert.key", Content: string(pair.Key), Mode: 0o644},
		}}, err
	}},
	Pause: {entrypoint: []string{"/usr/local/bin/pause"}, user: "65534:65534", layers: func(ctx context.Context, b *builder) ([][]file, error) {
		program, err := b.static(ctx, "e2e/cluster/pause", "pause")
		return [][]file{{program}}, err
	}},
	CoreDNS: {entrypoint: []string{"/usr/local/bin/coredns"}, layers: func(_ context.Context, _ *builder) ([][]file, error) {
		path, err := tools.Cached("coredns", "coredns")
		return [][]file{base(), {{Path: "/usr/local/bin/coredns", From: path, Mode: 0o755}}}, err
	}},
}

// envoyPath is where Envoy is in the proxy's image.
const envoyPath = "/usr/local/bin/envoy"

// withEnvoy are the layers of a program that runs Envoy and writes pods' rules, with others of ours beside it; all but the last are the same for each.
func (b *builder) withEnvoy(names ...string) ([][]file, error) {
	var programs []file
	for _, name := range names {
		program, err := b.built(name)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	envoy, err := b.envoy()
	if err != nil {
		return nil, err
	}
	libraries, err := b.system.libraries(envoy)
	if err != nil {
		return nil, err
	}
	iptables, err := b.system.iptables()
	if err != nil {
		return nil, err
	}
	return [][]file{
		append(append(base(), libraries...), iptables...),
		{{Path: envoyPath, From: envoy, Mode: 0o755}, {Path: "/usr/bin/envoy", Link: "../local/bin/envoy"}},
		programs,
	}, nil
}

// envoy is the pinned stock Envoy.
func (b *builder) envoy() (string, error) {
	if b.system.arch == runtime.GOARCH {
		return tools.Cached("envoy", "envoy")
	}
	return tools.CachedFor(b.system.arch, "envoy", "envoy")
}

// built is a program that `make build` left in bin/, or in bin/linux-ARCH for another architecture.
func (b *builder) built(name string) (file, error) {
	dir := filepath.Join(b.root, "bin")
	if b.system.arch != runtime.GOARCH {
		dir = filepath.Join(dir, "linux-"+b.system.arch)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return file{}, fmt.Errorf("%s: %w: run `make build`", path, ErrNotBuilt)
	}
	return file{Path: "/usr/local/bin/" + name, From: path, Mode: 0o755}, nil
}

// static builds a program of this checkout that links no C.
func (b *builder) static(ctx context.Context, source, name string) (file, error) {
	if _, err := os.Stat(filepath.Join(b.root, source)); errors.Is(err, fs.ErrNotExist) {
		return file{}, fmt.Errorf("%s: %w", source, ErrNoSource)
	}
	path, err := b.compile(ctx, "./"+source, name)
	return file{Path: "/usr/local/bin/" + name, From: path, Mode: 0o755}, err
}
