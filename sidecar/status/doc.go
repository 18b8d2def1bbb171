// Package status answers the questions about a pod's proxy over HTTP: is it ready, what are its metrics, what does
// the relay do.
//
// In: functions that know (Config), Envoy's admin interface; out: two listeners, Istio's ports 15021 (readiness, for
// the kubelet) and 15020 (readiness, metrics, debugging, the resolver, and the application's own probes, which package appprobe
// performs).
//
// It must not import the packages that it reports about.
package status
