package fields

import networking "istio.io/api/networking/v1alpha3"

var workloadEntry = Kind{
	Name: "WorkloadEntry", API: "networking.istio.io/v1", Message: &networking.WorkloadEntry{},
	Fields: []Field{{Fate: Warned, Why: "the object is read and judged, but no service gets its endpoint: a ServiceEntry's workloadSelector picks pods only",
		Fix: "list the address in spec.endpoints of the ServiceEntry"}},
}

var workloadGroup = Kind{
	Name: "WorkloadGroup", API: "networking.istio.io/v1", Message: &networking.WorkloadGroup{},
	Fields: []Field{{Fate: Warned, Why: "the object is read and judged, but workloads do not register themselves by it",
		Fix: "list their addresses in spec.endpoints of a ServiceEntry"}},
}
