package wire

import (
	"strings"
)

// Authorizers begins the names of such clusters.
const Authorizers = "authorizer|"

// AuthorizerCluster is the name of the cluster of an authorizer that AuthorizationPolicies ask. It is no host's own: what a proxy's apps may
// reach, and how, has nothing to do with it.
func AuthorizerCluster(port uint32, host string) string {
	return Authorizers + RouteName(port) + "||" + host
}

// AuthorizerSpoke and AuthorizerFailed are Envoy's details of what an authorizer denied, and of what was denied since it could not be asked.
const (
	AuthorizerSpoke  = "ext_authz_denied"
	AuthorizerFailed = "ext_authz_error"
)

// TokenDenied begins Envoy's response code details of a request whose token is not good; why follows in braces.
const TokenDenied = "jwt_authn_access_denied"

// TokenReason says why a token is not good, as records do, by such details; false of others.
func TokenReason(details string) (string, bool) {
	why, is := strings.CutPrefix(details, TokenDenied)
	if !is {
		return "", false
	}
	return "its token is not good: " + strings.ReplaceAll(strings.Trim(why, "{}"), "_", " "), true
}
