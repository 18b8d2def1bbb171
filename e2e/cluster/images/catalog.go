package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sallyport/sallyport/e2e/tools"
)

// Names of the images. Those of Sallyport are what the chart installs.
const (
	Controller = "sallyport"
	Proxy      = "sallyport-proxy"
	Node       = "sallyport-node"
	App        = "sallyport-e2e-app"  // package app: server and client of tests
	Curl       = "sallyport-e2e-curl" // the same with curl and a shell
	Pause      = "sallyport-e2e-pause"
	CoreDNS    = "sallyport-e2e-coredns"
)

// All are the images that tests use in pods of their own; System are those that the cluster itself needs.
var (
	All    = []string{Controller, Proxy, Node, App, Curl}
	System = []string{Pause, CoreDNS}
)

// ErrNoSource is in the error about an image whose program this checkout does not have.
var ErrNoSource = errors.New("there is no such program in this checkout")

// recipe says what an image is made of: layers, those that change least first.
type recipe struct {
	entrypoint []string
	user       string
	layers     func(ctx context.Context, b *builder) ([][]file, error)
}

var recipes = map[string]recipe{
	Controller: {entrypoint: []string{"/usr/local/bin/sallyport"}, user: "1337:1337", layers: func(ctx context.Context, b *builder) ([][]file, error) {
		program, err := b.built("sallyport")
		if err != nil {
			return nil, err
		}
		libraries, err := librariesOf(ctx, program.From)
		return [][]file{append(base(), libraries...), {program}}, err
	}},
	Proxy: {entrypoint: []string{"/usr/local/bin/sallyport-agent"}, layers: func(ctx context.Context, b *builder) ([][]file, error) {
		agent, err := b.built("sallyport-agent")
		if err != nil {
			return nil, err
		}
		envoy, err := tools.Cached("envoy", "envoy")
		if err != nil {
			return nil, err
		}
		libraries, err := librariesOf(ctx, envoy)
		if err != nil {
			return nil, err
		}
		iptables, err := iptables(ctx)
		if err != nil {
			return nil, err
		}
		return [][]file{
			append(append(base(), libraries...), iptables...),
			{{Path: "/usr/local/bin/envoy", From: envoy, Mode: 0o755}, {Path: "/usr/bin/envoy", Link: "../local/bin/envoy"}},
			{agent},
		}, nil
	}},
	Node: {entrypoint: []string{"/usr/local/bin/sallyport-node"}, layers: func(ctx context.Context, b *builder) ([][]file, error) {
		program, err := b.static(ctx, "cmd/sallyport-node", "sallyport-node")
		return [][]file{base(), {program}}, err
	}},
	App: {entrypoint: []string{"/usr/local/bin/app"}, user: "1000:1000", layers: func(ctx context.Context, b *builder) ([][]file, error) {
		program, err := b.static(ctx, "e2e/cluster/app", "app")
		return [][]file{base(), {program}}, err
	}},
	Curl: {entrypoint: []string{"/usr/local/bin/app"}, user: "1000:1000", layers: func(ctx context.Context, b *builder) ([][]file, error) {
		program, err := b.static(ctx, "e2e/cluster/app", "app")
		if err != nil {
			return nil, err
		}
		shell, err := fromHost(ctx, "sh", "curl", "sleep", "cat", "ls", "id", "env", "getent")
		return [][]file{append(base(), shell...), {program}}, err
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

// built is a program that `make build` left in bin/.
func (b *builder) built(name string) (file, error) {
	path := filepath.Join(b.root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return file{}, fmt.Errorf("%s is missing: run `make build`", path)
	}
	return file{Path: "/usr/local/bin/" + name, From: path, Mode: 0o755}, nil
}

// static builds a program of this checkout that links no C.
func (b *builder) static(ctx context.Context, source, name string) (file, error) {
	if _, err := os.Stat(filepath.Join(b.root, source)); errors.Is(err, fs.ErrNotExist) {
		return file{}, fmt.Errorf("%s: %w", source, ErrNoSource)
	}
	path, err := b.compile(ctx, source, name)
	return file{Path: "/usr/local/bin/" + name, From: path, Mode: 0o755}, err
}
