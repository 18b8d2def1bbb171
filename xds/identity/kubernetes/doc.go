// Package kubernetes holds the tests of identity in Kubernetes, against a real API server: tokens, pods, the CA's Secret, the
// trust bundle and webhooks together. There is nothing in it to import.
package kubernetes
