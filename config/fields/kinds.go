package fields

// kinds are all tables of objects, in the order of docs/fields.md.
var kinds = []*Kind{
	&egressPolicy, &serviceEntry, &destinationRule, &sidecar, &virtualService, &gateway, &workloadEntry, &workloadGroup,
	&authorizationPolicy, &peerAuthentication, &requestAuthentication,
	&proxyConfig, &telemetryKind, &envoyFilter, &wasmPlugin, &trafficExtension,
}

// Kinds gives the tables of all kinds of objects, which nobody may change.
func Kinds() []*Kind { return kinds }

// Of finds the table of a kind; nil without one.
func Of(name string) *Kind {
	for _, k := range kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}
