// Package manifest gives proxies to the pods in YAML or JSON files, without a cluster's webhook.
//
// In: a file with any objects, one or many, and the injector's settings; out: the file with the pods and pod templates
// changed. A document that does not change keeps its every byte, comments too. Of one that changes, the comments
// before it stay.
package manifest
