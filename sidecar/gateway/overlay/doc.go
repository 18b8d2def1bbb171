// Package overlay says what the parameters of a Gateway, or of a GatewayClass, may change of the objects that a gateway is made of.
//
// In: the data of a ConfigMap, a text of YAML for each of Istio's keys, each a strategic merge patch; and the objects. Out: the objects as the
// patches leave them, or an error that names the ConfigMap, the field, its value and what to do.
//
// Who writes a ConfigMap may not be who writes the Gateway, so a patch holds only fields of a list (allowed.go): how many pods, where they run, what
// they may use, and how others come to them. What runs there, as whom, and with which rights is nobody's to choose: image, arguments, environment,
// volumes, security and accounts are refused by name, and so is every field that the list does not know, also of a newer Kubernetes. Labels and
// annotations that are the mesh's, or that other programs take for an order to put something into a pod, are refused as well (names.go).
package overlay
