package fields

import (
	"slices"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

var egressPolicy = Kind{
	Name: "EgressPolicy", API: v1alpha1.Group + "/" + v1alpha1.Version, Message: &v1alpha1.EgressPolicy{},
	Fields: slices.Concat(
		applied("selector.matchLabels", "serviceAccounts", "namespaces.names", "namespaces.matchLabels", "mode", "default",
			"rules.name", "rules.hosts", "rules.ports", "rules.protocols", "rules.methods", "rules.paths", "rules.headers.name", "rules.headers.value",
			"rules.action", "rules.expires", "rules.notBefore", "rules.reason", "rules.owner", "rules.final", "rules.unregistered"),
		idle("rules.ticket"),
	),
}
