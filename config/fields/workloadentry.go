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

// ofMachines are the lines of a group's template that mean something else than those of an entry do.
var ofMachines = []Field{
	{Path: "address", Fate: Idle, Why: "each machine has its own"},
	{Path: "labels", Fate: Applied, Why: "of all machines of the group: what one says of itself counts for nothing"},
	{Path: "network", Fate: Applied, Why: "of all machines of the group: one that says another is refused"},
	{Path: "serviceAccount", Fate: Applied, Why: "who may join, by a token or certificate of that account; without it, `default`"},
}

var workloadGroup = Kind{
	Name: "WorkloadGroup", API: "networking.istio.io/v1", Message: &networking.WorkloadGroup{},
	Fields: slices.Concat(
		applied("metadata.labels", "metadata.annotations"),
		below("template", slices.Concat(ofMachines, slices.DeleteFunc(workloadEntryFields(), func(f Field) bool {
			return slices.ContainsFunc(ofMachines, func(m Field) bool { return m.Path == f.Path })
		}))),
		applied("probe.initialDelaySeconds", "probe.timeoutSeconds", "probe.periodSeconds", "probe.successThreshold", "probe.failureThreshold",
			"probe.httpGet.path", "probe.httpGet.port", "probe.httpGet.scheme", "probe.httpGet.httpHeaders.name", "probe.httpGet.httpHeaders.value",
			"probe.tcpSocket.port", "probe.grpc.port", "probe.grpc.service"),
		[]Field{{Path: "probe.exec.command", Fate: Applied, Why: "where the machine's agent may run commands (`--exec-probes`); elsewhere the machine is not well, and says why"}},
		warned("probes go to the machine itself, at its address", "remove it", "probe.httpGet.host", "probe.tcpSocket.host"),
	),
}

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
