// Package conformance runs the Gateway API's own conformance suite against the chart's release on the test cluster.
//
// In: the cluster of e2e/cluster with Sallyport's images. Out: the suite's report. The API's CRDs and the suite's manifests are
// those of the modules; the echo servers are built from the module's source, and are in the cluster under the names that the
// manifests say. The cluster has no load balancer, so a small one of this package gives Services their own addresses.
//
// The CRDs are those of the experimental channel, which have all fields that the suite has tests for; the standard channel's drop some.
// features.go names the profiles; serviceentry/gatewayapi what is claimed and what is not, with the reason.
package conformance
