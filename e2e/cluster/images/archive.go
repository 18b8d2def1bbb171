package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Where tools find the name of what an archive holds: containerd's import the whole reference, others the last part of it.
const (
	nameAnnotation = "io.containerd.image.name"
	refAnnotation  = "org.opencontainers.image.ref.name"
)

// WriteArchive writes the images as one OCI archive (the image layout of the OCI image specification, as a tar), in
// which a blob of several images is once. Containerd keeps the digests.
func WriteArchive(w io.Writer, built ...Image) error {
	a := newArchive(w)
	var named []v1.Descriptor
	for _, i := range built {
		descriptor, err := a.image(i.image)
		if err != nil {
			return err
		}
		descriptor.Annotations = map[string]string{nameAnnotation: Ref(i.Name)}
		named = append(named, descriptor)
	}
	return a.close(named...)
}

// archive writes a layout as it is given its parts.
type archive struct {
	tar     *tar.Writer
	written map[v1.Hash]bool
}

func newArchive(w io.Writer) *archive {
	return &archive{tar: tar.NewWriter(w), written: map[v1.Hash]bool{}}
}

// close writes the list of what the archive is about, and its end.
func (a *archive) close(named ...v1.Descriptor) error {
	content, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: named})
	if err != nil {
		return err
	}
	if err := a.file("index.json", content); err != nil {
		return err
	}
	if err := a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	return a.tar.Close()
}

// index writes an index and all that it lists.
func (a *archive) index(index v1.ImageIndex) (v1.Descriptor, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			return v1.Descriptor{}, err
		}
		if _, err := a.image(image); err != nil {
			return v1.Descriptor{}, err
		}
	}
	raw, err := index.RawManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	return a.manifest(types.OCIImageIndex, raw)
}

// image writes a manifest and all that it lists.
func (a *archive) image(image v1.Image) (v1.Descriptor, error) {
	layers, err := image.Layers()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, l := range layers {
		if err := a.layer(l); err != nil {
			return v1.Descriptor{}, err
		}
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return v1.Descriptor{}, err
	}
	if _, err := a.manifest(types.OCIConfigJSON, config); err != nil {
		return v1.Descriptor{}, err
	}
	raw, err := image.RawManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	return a.manifest(types.OCIManifestSchema1, raw)
}

// manifest writes a document as a blob.
func (a *archive) manifest(media types.MediaType, content []byte) (v1.Descriptor, error) {
	hash, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: media, Digest: hash, Size: size}, a.blob(hash, content)
}

func (a *archive) layer(l v1.Layer) error {
	hash, err := l.Digest()
	if err != nil || a.written[hash] {
		return err
	}
	r, err := l.Compressed() // as it is in the archive
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return a.blob(hash, content)
}

func (a *archive) blob(hash v1.Hash, content []byte) error {
	if a.written[hash] {
		return nil
	}
	a.written[hash] = true
	return a.file("blobs/"+hash.Algorithm+"/"+hash.Hex, content)
}

func (a *archive) file(name string, content []byte) error {
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := a.tar.Write(content)
	return err
}
