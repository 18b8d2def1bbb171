package admission

import (
	"fmt"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Beyond is what is said of a ServiceEntry of the mesh that leads to pods of its namespace, and does not count there, since the namespace's lead to too many.
func Beyond(entry config.Object) Finding {
	r := &report{of: entry}
	r.warn("spec.endpoints", nil, fmt.Sprintf("the ServiceEntries of namespace %s lead to more than %d ports of endpoints, and this one goes beyond: what it says of ports is not applied to what comes to pods there", entry.Namespace, registry.MostLeads),
		"name the ports in a Service that selects the pods, or in a Sidecar's ingress; or remove endpoints")
	return r.findings[0]
}
