// Package locality says which of a service's endpoints a client asks first, by where both are: Istio's localityLbSetting.
//
// In: where the client is, a setting, and where endpoints are. Out: the endpoints in groups, each with a priority (0 is asked first; the next one
// as the ones before fail) and a share of what goes to that priority. It knows no Envoy and no Kubernetes type.
package locality
