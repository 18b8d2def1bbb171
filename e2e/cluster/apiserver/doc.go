// Package apiserver runs a real Kubernetes API server for tests of what talks to one: etcd and kube-apiserver on free
// loopback ports, with the CRDs of Istio's kinds and of ours. There are no controllers and no nodes: pods stay pending, and a deleted namespace
// stays terminating. Root is not needed.
//
// In: a test. Out: an admin's client configuration. The processes end with the test, and with the test process if
// that is killed. A goleak check must ignore
// github.com/sallyport/sallyport/e2e/world.startForever, the thread that the processes belong to.
//
// `make cluster-tools` builds and installs what it starts; without that, tests are skipped.
package apiserver
