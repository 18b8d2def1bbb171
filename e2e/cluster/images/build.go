package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Hub and Tag are those of all images: "localhost/sallyport:e2e".
const (
	Hub = "localhost"
	Tag = "e2e"
)

// Ref is the reference of an image in a pod. Pull policies must be IfNotPresent or Never.
func Ref(name string) string { return Hub + "/" + name + ":" + Tag }

// Image is an assembled image.
type Image struct {
	Name   string
	Digest string // of its manifest, "sha256:…"

	image v1.Image
}

// builder assembles images of the checkout at root; what it compiles goes to scratch.
type builder struct{ root, scratch string }

// Build assembles the images. It compiles the small programs of tests; those of Sallyport must be in bin/.
func Build(ctx context.Context, names ...string) ([]Image, error) {
	root, err := Checkout(ctx)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "sallyport-images-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	b := &builder{root: root, scratch: scratch}
	var built []Image
	for _, name := range names {
		image, err := b.build(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		built = append(built, image)
	}
	return built, nil
}

func (b *builder) build(ctx context.Context, name string) (Image, error) {
	recipe, ok := recipes[name]
	if !ok {
		return Image{}, fmt.Errorf("there is no such image; there are %s", strings.Join(append(All, System...), ", "))
	}
	contents, err := recipe.layers(ctx, b)
	if err != nil {
		return Image{}, err
	}
	var layers []v1.Layer
	for _, files := range contents {
		l, err := layer(files...)
		if err != nil {
			return Image{}, err
		}
		layers = append(layers, l)
	}
	image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layers...)
	if err != nil {
		return Image{}, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return Image{}, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{
		Entrypoint: recipe.entrypoint, User: recipe.user, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/usr/sbin"},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return Image{}, err
	}
	digest, err := image.Digest()
	return Image{Name: name, Digest: digest.String(), image: image}, err
}

// compile builds a static program whose bytes depend on its source alone.
func (b *builder) compile(ctx context.Context, source, name string) (string, error) {
	path := filepath.Join(b.scratch, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", path, "./"+source)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", source, err, out)
	}
	return path, nil
}

// Checkout is the directory of this module's go.mod, the working directory's.
func Checkout(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
