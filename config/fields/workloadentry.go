package fields

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

var workloadEntry = Kind{
	Name: "WorkloadEntry", API: "networking.istio.io/v1", Message: &networking.WorkloadEntry{},
	Fields: slices.Concat(
		[]Field{
			{Path: "labels", Fate: Applied},
			{Path: "serviceAccount", Fate: Applied, Why: "with the address and the labels, whom EgressPolicies select; and whom an endpoint of the mesh has to be that takes mutual TLS"},
		},
		slices.DeleteFunc(workloadEntryFields(), func(f Field) bool { return f.Path == "labels" || f.Path == "serviceAccount" }),
	),
}

var workloadGroup = Kind{
	Name: "WorkloadGroup", API: "networking.istio.io/v1", Message: &networking.WorkloadGroup{},
	Fields: []Field{{Fate: Warned, Why: "the object is read and judged, but workloads do not register themselves by it",
		Fix: "list their addresses in spec.endpoints of a ServiceEntry"}},
}
