package fields

import (
	"slices"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

const rootOnly = "in the root namespace; refused elsewhere"

var egressPolicy = Kind{
	Name: "EgressPolicy", API: v1alpha1.Group + "/" + v1alpha1.Version, Message: &v1alpha1.EgressPolicy{},
	Fields: slices.Concat(
		[]Field{
			{Path: "selector.matchLabels", Fate: Applied, Why: "by the labels of Pods and WorkloadEntries, never by what a proxy says"},
			{Path: "serviceAccounts", Fate: Applied, Why: "names alone; of any namespace that the policy is for"},
			{Path: "namespaces.names", Fate: Applied, Why: rootOnly}, {Path: "namespaces.matchLabels", Fate: Applied, Why: rootOnly},
			{Path: "mode", Fate: Applied, Why: "Observe records would_deny, and denies nothing"},
			{Path: "default", Fate: Applied, Why: "without it Deny, once a rule allows something, even one that has ended"},
		},
		applied("rules.name", "rules.hosts", "rules.ports", "rules.protocols"),
		[]Field{
			{Path: "rules.methods", Fate: Applied, Why: readRequests}, {Path: "rules.paths", Fate: Applied, Why: readRequests},
			{Path: "rules.headers.name", Fate: Applied, Why: readRequests}, {Path: "rules.headers.value", Fate: Applied, Why: readRequests},
		},
		applied("rules.action", "rules.expires", "rules.notBefore", "rules.reason", "rules.owner"),
		[]Field{
			{Path: "rules.ticket", Fate: Idle, Why: "for people"},
			{Path: "rules.final", Fate: Applied, Why: rootOnly},
			{Path: "rules.unregistered", Fate: Applied, Why: "under REGISTRY_ONLY, by the gateway; " + rootOnly},
		},
	),
}

const readRequests = "of HTTP that a proxy reads; refused where a host's port is registered as TLS or TCP"
