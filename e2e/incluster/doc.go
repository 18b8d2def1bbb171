// Package incluster holds the chart, and all that it installs, to what users are promised, on a real Kubernetes: the
// test cluster (package cluster), with an outside of its own DNS and web servers. It is tests only.
//
// The tests install a release and remove it. They need a cluster that is up and has the images, as `make e2e` brings it
// about; without one they are skipped.
package incluster
