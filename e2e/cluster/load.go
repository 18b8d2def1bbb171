package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/e2e/cluster/images"
)

// LoadImages assembles the images (all of images.All if none are named) and brings those to the node that are not there
// with the same content. It gives the names of those that were new. Running pods go on with the image they were
// started with. Of all images, one whose program the checkout does not have is left out.
func (c *Cluster) LoadImages(ctx context.Context, names ...string) ([]string, error) {
	if len(names) > 0 {
		return c.load(ctx, names, false)
	}
	return c.load(ctx, images.All, true)
}

func (c *Cluster) load(ctx context.Context, names []string, lenient bool) ([]string, error) {
	present, err := c.present(ctx)
	if err != nil {
		return nil, err
	}
	var missing []images.Image
	var loaded []string
	for _, name := range names {
		built, err := images.Build(ctx, name)
		if lenient && errors.Is(err, images.ErrNoSource) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if present[images.Ref(name)] != built[0].Digest {
			missing = append(missing, built[0])
			loaded = append(loaded, name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	return loaded, c.importImages(ctx, missing)
}

// ctr is a command of containerd's client, on the images that the kubelet sees.
func (c *Cluster) ctr(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.programs["ctr"], append([]string{"--address", containerdSocket(), "--namespace", "k8s.io"}, args...)...)
}

// present gives the digest of every image on the node, by its reference.
func (c *Cluster) present(ctx context.Context) (map[string]string, error) {
	out, err := output(c.ctr(ctx, "images", "list"))
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 2 { // REF TYPE DIGEST …
			digests[fields[0]] = fields[2]
		}
	}
	return digests, nil
}

func (c *Cluster) importImages(ctx context.Context, missing []images.Image) error {
	r, w := io.Pipe()
	cmd := c.ctr(ctx, "images", "import", "-")
	cmd.Stdin = r
	go func() { w.CloseWithError(images.WriteArchive(w, missing...)) }()
	if _, err := output(cmd); err != nil {
		return errors.Join(fmt.Errorf("importing images: %w", err), r.Close())
	}
	return r.Close()
}

// LoadAs brings images to the node under other references: those that manifests of others say.
func (c *Cluster) LoadAs(ctx context.Context, names map[string]string) error {
	for _, image := range slices.Compact(slices.Sorted(maps.Values(names))) {
		if _, err := c.LoadImages(ctx, image); err != nil {
			return err
		}
	}
	for ref, image := range names {
		if _, err := output(c.ctr(ctx, "images", "tag", "--force", images.Ref(image), ref)); err != nil {
			return fmt.Errorf("naming the image %s as %s: %w", image, ref, err)
		}
	}
	return nil
}
