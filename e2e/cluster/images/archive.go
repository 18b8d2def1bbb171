package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nameAnnotation is where containerd's import finds the name of a manifest in an archive.
const nameAnnotation = "io.containerd.image.name"

// WriteArchive writes the images as one OCI archive (the image layout of the OCI image specification, as a tar), in
// which a blob of several images is once. Containerd keeps the digests.
func WriteArchive(w io.Writer, built ...Image) error {
	a := &archive{tar: tar.NewWriter(w), written: map[v1.Hash]bool{}}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, i := range built {
		descriptor, err := a.image(i)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, descriptor)
	}
	content, err := json.Marshal(index)
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

type archive struct {
	tar     *tar.Writer
	written map[v1.Hash]bool
}

func (a *archive) image(i Image) (v1.Descriptor, error) {
	layers, err := i.image.Layers()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, l := range layers {
		if err := a.layer(l); err != nil {
			return v1.Descriptor{}, err
		}
	}
	config, err := i.image.RawConfigFile()
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest, err := i.image.RawManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, blob := range [][]byte{config, manifest} {
		hash, _, err := v1.SHA256(bytes.NewReader(blob))
		if err != nil {
			return v1.Descriptor{}, err
		}
		if err := a.blob(hash, blob); err != nil {
			return v1.Descriptor{}, err
		}
	}
	digest, err := i.image.Digest()
	return v1.Descriptor{
		MediaType: types.OCIManifestSchema1, Digest: digest, Size: int64(len(manifest)),
		Annotations: map[string]string{nameAnnotation: Ref(i.Name)},
	}, err
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
