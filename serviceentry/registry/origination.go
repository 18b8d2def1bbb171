package registry

// Origination says whether an exit speaks TLS to the host for clients that speak plain HTTP (or TCP, where a rule says
// so), and to which port. Without a rule: when the port's target is 443, or when the same entry registers a TLS port,
// which is then where plain HTTP goes too. nil: the client's bytes go on as they are.
func Origination(svc *Service, port Port, rule *DestinationRule) (*TLSSettings, uint32) {
	if port.Protocol == TLS {
		return nil, port.TargetPort
	}
	if t := rule.TLSFor(port.Number); t != nil {
		return t, port.TargetPort
	}
	if !port.Protocol.IsHTTP() || (svc.Wildcard() && port.Number != 80) {
		return nil, port.TargetPort // a wildcard's port is the one in the request, which a proxy cannot exchange
	}
	simple := &TLSSettings{Mode: TLSSimple}
	if port.TargetPort == 443 {
		return simple, port.TargetPort
	}
	if !port.Explicit {
		if to, ok := securePort(svc); ok {
			return simple, to.TargetPort
		}
	}
	return nil, port.TargetPort
}

// securePort finds the TLS port of an entry: 443 if there is one, else the lowest.
func securePort(svc *Service) (Port, bool) {
	var first Port
	for _, p := range svc.Ports {
		if p.Protocol != TLS || p.Routed {
			continue
		}
		if p.Number == 443 {
			return p, true
		}
		if first.Number == 0 {
			first = p
		}
	}
	return first, first.Number != 0
}
