package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Hub and Tag are those of all images in the test cluster: "localhost/sallyport:e2e".
const (
	Hub = "localhost"
	Tag = "e2e"
)

// Ref is the reference of an image in a pod of the test cluster. Pull policies must be IfNotPresent or Never.
func Ref(name string) string { return Hub + "/" + name + ":" + Tag }

// Image is an assembled image of one architecture.
type Image struct {
	Name   string
	Arch   string // as Go calls it
	Digest string // of its manifest, "sha256:…"

	image v1.Image
	files []file // of all layers
}

// origin is the state of the checkout that images are made of.
type origin struct {
	version  string    // as `git describe` prints it; "unknown" without git
	revision string    // the commit
	at       time.Time // of the commit; the zero of Unix time without git
}

// builder assembles images of the checkout at root; what it compiles goes to scratch.
type builder struct {
	root, scratch string
	system        system
	origin        origin
}

// Build assembles images for this machine. It compiles the small programs of tests; those of Sallyport must be in bin/.
func Build(ctx context.Context, names ...string) ([]Image, error) {
	return BuildFor(ctx, runtime.GOARCH, names...)
}

// BuildFor assembles images for an architecture. The programs of another one than this machine's are in bin/linux-ARCH.
func BuildFor(ctx context.Context, arch string, names ...string) ([]Image, error) {
	b, err := newBuilder(ctx, arch)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(b.scratch) }()
	var built []Image
	for _, name := range names {
		image, err := b.build(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("image %s for %s: %w", name, arch, err)
		}
		built = append(built, image)
	}
	return built, nil
}

func newBuilder(ctx context.Context, arch string) (*builder, error) {
	root, err := Checkout(ctx)
	if err != nil {
		return nil, err
	}
	system, err := systemOf(arch)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "sallyport-images-")
	return &builder{root: root, scratch: scratch, system: system, origin: originOf(ctx, root)}, err
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
	made := Image{Name: name, Arch: b.system.arch}
	var layers []v1.Layer
	for _, files := range contents {
		l, err := newLayer(files...)
		if err != nil {
			return Image{}, err
		}
		layers = append(layers, l)
		made.files = append(made.files, files...)
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
	config.OS, config.Architecture = "linux", b.system.arch
	config.Config = v1.Config{
		Entrypoint: recipe.entrypoint, User: recipe.user, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/usr/sbin"},
	}
	if recipe.title != "" { // ours, and not a test's: these change with every commit
		config.Created = v1.Time{Time: b.origin.at}
		config.Config.Labels = b.labels(recipe.title)
	}
	if made.image, err = mutate.ConfigFile(image, config); err != nil {
		return Image{}, err
	}
	digest, err := made.image.Digest()
	made.Digest = digest.String()
	return made, err
}

// labels are the OCI image specification's annotations, which tools read as labels too.
func (b *builder) labels(title string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    title,
		"org.opencontainers.image.version":  b.origin.version,
		"org.opencontainers.image.revision": b.origin.revision,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// compile builds a static program of tests, a package of this module or of one that it requires; its bytes depend on its source alone.
func (b *builder) compile(ctx context.Context, source, name string) (string, error) {
	path := filepath.Join(b.scratch, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", path, source)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.system.arch)
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

// originOf asks git, as the Makefile does for the programs' version.
func originOf(ctx context.Context, root string) origin {
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	o := origin{version: git("describe", "--tags", "--always", "--dirty"), revision: git("rev-parse", "HEAD"), at: time.Unix(0, 0).UTC()}
	if seconds, err := strconv.ParseInt(git("log", "-1", "--format=%ct"), 10, 64); err == nil {
		o.at = time.Unix(seconds, 0).UTC()
	}
	if o.version == "" {
		o.version, o.revision = "unknown", "unknown"
	}
	return o
}
