package fields

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

var serviceEntry = Kind{
	Name: "ServiceEntry", API: "networking.istio.io/v1", Message: &networking.ServiceEntry{},
	Fields: slices.Concat(
		applied("hosts", "addresses", "ports.number", "ports.protocol", "ports.name", "ports.targetPort",
			"location", "resolution", "workloadSelector.labels", "exportTo", "subjectAltNames"),
		below("endpoints", workloadEntryFields()),
	),
}

// workloadEntryFields are those of an endpoint, wherever it is written.
func workloadEntryFields() []Field {
	return slices.Concat(applied("address", "ports", "weight"), idle("labels"), []Field{
		{Path: "network", Fate: Warned, Why: "endpoints in other networks are asked straight, not by their network's gateway",
			Fix: "write an address that proxies can reach, and remove it"},
		{Path: "locality", Fate: Warned, Why: "endpoints far away are asked as often as near ones", Fix: "remove it, or give near endpoints more weight"},
		{Path: "serviceAccount", Fate: Warned, Why: "the endpoint's identity is not asked for: proxies speak to it without mutual TLS of the mesh",
			Fix: "remove it; to have the server's certificate checked, write a DestinationRule with tls.mode SIMPLE or MUTUAL"},
	})
}
