// Package matrix says of many workloads and many hosts at once what policy.Decide says of each: who can reach a host, and what a
// workload can reach. In come a registry's snapshot and the objects that workloads are known by, out go cells. Nothing is decided here.
package matrix
