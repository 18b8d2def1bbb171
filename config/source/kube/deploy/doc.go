// Package deploy keeps, for each Gateway of the Gateway API whose GatewayClass is this controller's, the objects that it is
// made of in the cluster, and the GatewayClass itself.
//
// In: the API server's Gateways, GatewayClasses and ListenerSets, and a function that says what objects a Gateway consists of. Out:
// these objects, by server-side apply under an own field manager, and for each Gateway its State: the addresses that its Service has,
// or why it is not deployed. Run is for the leader. Nothing is asked for before the cluster has the API's CRDs.
//
// Objects are owned by their Gateway (a controller's ownerReference), so the cluster's garbage collection removes them with it. They are
// repaired when somebody changes what is applied; other fields are others' to write, such as replicas by an autoscaler. An object of
// the same name that is not the Gateway's is never taken over: the State says so. What a Gateway whose class is no longer ours
// leaves is removed.
//
// Parameters are the ConfigMaps that Gateways and classes name (parametersRef), each watched by itself (follow.go). A Gateway whose parameters are
// not read yet, are missing or may not be read stays deployed as it was, and so does one of which the API server does not take all that they make of it.
//
// The rights that it needs: get, list and watch on the three kinds of the Gateway API, create on gatewayclasses, and get, list,
// watch, create, patch and delete on deployments, services, serviceaccounts, horizontalpodautoscalers and poddisruptionbudgets wherever Gateways
// may be; list and watch on configmaps where parameters are.
package deploy
