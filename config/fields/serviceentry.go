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
		{Path: "network", Fate: Applied, Why: "endpoints of the mesh (MESH_INTERNAL) with addresses are reached by the gateway of their network, by mutual TLS"},
		{Path: "locality", Fate: Applied, Why: "near endpoints are asked first where a DestinationRule says how (localityLbSetting), or that failures are noticed (outlierDetection)"},
		{Path: "serviceAccount", Fate: Applied, Why: "whom an endpoint of the mesh (MESH_INTERNAL) has to be that takes mutual TLS, as its label security.istio.io/tlsMode says"},
	})
}
