// Package images assembles container images from files of this machine: what `make build` left in bin/, Envoy from the
// cache, and tools with their shared libraries from the host. No registry is asked for anything.
//
// In: names of images. Out: images in memory and as an OCI archive, whose bytes depend on the files' content alone, so
// that an image that is there already is known by its digest. It knows nothing of clusters.
package images
