// Package kube is the source of configuration that watches a Kubernetes API server.
//
// In: a client's configuration (Connect makes one). Out: batches of changes, first everything as one, and findings
// about what cannot be used; and for those who write status, an Assessment of each version of an object.
//
// Each kind of kinds.go has a reflector of client-go (watch-list where the server offers it, pages where not), which
// puts what it sees straight into the store: there is no second cache. Istio's objects are decoded from the server's
// JSON by config/decode, as files are, and not by Istio's typed client: that drops fields it does not know, and
// a field that an installed CRD knows and this program does not must be refused, not ignored. (Mistyped fields never
// get here, since the API server prunes what the CRD does not have; its metadata is not held to any schema.) Of
// Service, EndpointSlice, Pod and Namespace only what the registry reads is kept.
//
// Bad input never half-applies: an object that is refused keeps its last good version, which is forgotten when this
// process ends. An object leaves when the API server says that it is gone: by a watch event, a new list, or because
// its CustomResourceDefinition was deleted, which deletes its objects. As long as the API server cannot be asked,
// nothing leaves. Relisting, and updates that change nothing that is used, give no changes.
//
// A kind whose CRD is absent has no objects until the CRD comes. One that cannot be listed (forbidden, or the server
// fails) is reported, holds up the first batch for a while, and comes when it can.
//
// Secrets are read one by one: those that DestinationRules name in credentialName, in the rule's namespace, and those that Gateways
// name, in the namespaces of the Services of their pods; each with the one of the name and "-cacert"; and, with ConfigMaps, those that
// Gateways, ListenerSets and BackendTLSPolicies of the Gateway API name. Which it may read is for the rights to say: get, list and watch on secrets and configmaps in the namespaces of such
// rules and gateways, and in no others.
//
// Who programs nothing (NewDeciding) reads what decisions depend on alone: neither what objects name, nor Nodes.
//
// Of other clusters (NewRemote) Services, EndpointSlices, Pods and Namespaces are read, and nothing is written there.
//
// The rights that it needs, in all namespaces: get, list and watch the resources of kinds.go and
// customresourcedefinitions.apiextensions.k8s.io (without these, discovery is asked every ten seconds for what CRDs
// came). The packages below need get and patch on the custom ones and their status, and get, create and update on leases
// in the control plane's namespace.
//
// The packages below write back: status (conditions of Istio's objects) while leader holds the Lease. The package must
// not import what comes after it, the registry first of all.
package kube
