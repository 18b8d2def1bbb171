// Package leader lets one of several replicas do what only one may do: write statuses, hand out the trust bundle, keep
// webhooks' certificates.
//
// In: access to the API server, and jobs. Out: the jobs run while this process holds the Lease, and are ended before
// it is given up.
package leader
