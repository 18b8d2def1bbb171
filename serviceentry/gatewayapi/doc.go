// Package gatewayapi says what objects of the Gateway API mean to each other: which Gateways are ours, what their listeners are for,
// and at which of them a route counts.
//
// In: objects as config/decode gives them, and a World to look others up in. Out: plain values, each with the API's own reason where
// something does not count. The registry makes its Gateways and routes of them, and the package status what is told of each object. It
// knows no registry. https://gateway-api.sigs.k8s.io/reference/spec/
package gatewayapi
