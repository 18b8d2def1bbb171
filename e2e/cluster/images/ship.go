package images

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Written tells of an archive.
type Written struct {
	Archive string // the file
	Ref     string // "sallyport:1.2.3", as the chart of the same version calls it
	Digest  string // of the index
	Images  []Image
	Left    []error // architectures that were left out, and why
}

// Ship writes the images that the chart installs: of each an OCI archive with an index of the architectures, and of each
// architecture the SBOM, as an attestation in the archive and as a file beside it. An architecture whose program was
// not built is left out, unless it is the only one.
func Ship(ctx context.Context, dir string, archs []string) ([]Written, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var builders []*builder
	for _, arch := range archs {
		b, err := newBuilder(ctx, arch)
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(b.scratch) }()
		builders = append(builders, b)
	}
	var all []Written
	for _, name := range Shipped {
		written, err := ship(ctx, dir, name, builders)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		all = append(all, written)
	}
	return all, nil
}

func ship(ctx context.Context, dir, name string, builders []*builder) (Written, error) {
	var w Written
	var added []mutate.IndexAddendum
	for _, b := range builders {
		image, err := b.build(ctx, name)
		if errors.Is(err, ErrNotBuilt) {
			w.Left = append(w.Left, fmt.Errorf("%s for %s: %w", name, b.system.arch, err))
			continue
		}
		if err != nil {
			return w, fmt.Errorf("for %s: %w", b.system.arch, err)
		}
		if err := b.current(image); err != nil {
			return w, err
		}
		bill, err := b.bill(ctx, image)
		if err != nil {
			return w, fmt.Errorf("for %s: SBOM: %w", b.system.arch, err)
		}
		w.Ref, w.Images = name+":"+tagOf(b.origin.version), append(w.Images, image)
		if err := os.WriteFile(filepath.Join(dir, name+".linux-"+b.system.arch+".spdx.json"), bill, 0o644); err != nil {
			return w, err
		}
		attestation, err := attest(image, w.Ref, bill)
		if err != nil {
			return w, err
		}
		added = append(added, mutate.IndexAddendum{
			Add: image.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.system.arch}},
		}, attestation)
	}
	if len(w.Images) == 0 {
		return w, errors.Join(w.Left...)
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), added...)
	digest, err := index.Digest()
	if err != nil {
		return w, err
	}
	w.Digest, w.Archive = digest.String(), filepath.Join(dir, name+".tar")
	return w, writeIndex(w.Archive, w.Ref, index)
}

// ErrStale is in the error about a program of another version than its image would say.
var ErrStale = errors.New("the program was built from another state of the checkout")

// current is nil when the programs of an image are of the version that its labels say.
func (b *builder) current(i Image) error {
	for _, f := range i.files {
		if f.From == "" || !strings.HasPrefix(f.From, filepath.Join(b.root, "bin")+string(filepath.Separator)) {
			continue
		}
		program, err := os.ReadFile(f.From)
		if err != nil {
			return err
		}
		if !bytes.Contains(program, []byte(b.origin.version)) {
			return fmt.Errorf("%s: %w, not from %s: run `make images`", f.From, ErrStale, b.origin.version)
		}
	}
	return nil
}

// writeIndex writes an archive about one index, beside itself first: what is under the name is whole.
func writeIndex(path, ref string, index v1.ImageIndex) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	a := newArchive(out)
	descriptor, err := a.index(index)
	if err == nil {
		descriptor.Annotations = map[string]string{refAnnotation: ref}
		err = a.close(descriptor)
	}
	if err = errors.Join(err, out.Flush(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}

// attest makes what BuildKit and those who read its images call an attestation manifest: an in-toto statement about
// one image, in the index beside it. It goes wherever the whole index goes.
func attest(i Image, ref string, bill []byte) (mutate.IndexAddendum, error) {
	statement, err := json.Marshal(map[string]any{
		"_type": "https://in-toto.io/Statement/v0.1", "predicateType": spdxType,
		"subject": []any{map[string]any{
			"name":   "pkg:oci/" + strings.Replace(ref, ":", "@", 1) + "?platform=linux%2F" + i.Arch,
			"digest": map[string]string{"sha256": strings.TrimPrefix(i.Digest, "sha256:")},
		}},
		"predicate": json.RawMessage(bill),
	})
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	manifest, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer(statement, "application/vnd.in-toto+json"), Annotations: map[string]string{"in-toto.io/predicate-type": spdxType},
	})
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	config, err := manifest.ConfigFile()
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "unknown", "unknown" // nobody is to run it
	manifest, err = mutate.ConfigFile(manifest, config)
	return mutate.IndexAddendum{Add: manifest, Descriptor: v1.Descriptor{
		Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"},
		Annotations: map[string]string{
			"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": i.Digest,
		},
	}}, err
}

// spdxType is what in-toto calls an SPDX document.
const spdxType = "https://spdx.dev/Document"

var release = regexp.MustCompile(`^v(\d+\.\d+\.\d+.*)$`)

// tagOf is the images' tag for a version: as chart/package writes it, so that a chart finds its images.
func tagOf(version string) string {
	if m := release.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return version
}
