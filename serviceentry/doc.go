// Package serviceentry is the folder of what there is and of what happens to a request: the registry holds services, rules and
// scopes as an immutable snapshot, policy decides from it. Objects come from config; xds makes Envoy's configuration of what
// is said here.
package serviceentry
