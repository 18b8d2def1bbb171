// Package tokens says what Istio's RequestAuthentications ask of the tokens (JWT, RFC 7519) that requests carry: whose count, where they
// are, by which keys they are verified, and what of them goes on.
//
// In: the specs of RequestAuthentications. Out: neutral values, that xds/translate/authzfilter renders for whoever keeps them. A request
// without a token passes; AuthorizationPolicies (package authz) say who needs one.
package tokens
