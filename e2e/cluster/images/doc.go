// Package images assembles container images from files: what `make build` left in bin/, Envoy from the cache, and
// libraries and tools of the machine's Debian, or, for another architecture, of Debian's packages (e2e/tools/foreign). No
// registry is asked for anything.
//
// In: names of images. Out: images in memory and as OCI archives, whose bytes depend on the files' content alone, so
// that an image that is there already is known by its digest. Tests load them into their cluster (WriteArchive), and
// users get the same ones with their SBOMs (Ship, `make images`). It knows nothing of clusters.
package images
