package wire

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
