package admission

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkRuleExit warns of settings that a rule has for the Service of an egress gateway: no rule changes the connections by which others' traffic gets there. TLS is judged
// with that of other rules.
func (w *world) checkRuleExit(r *report, d *networking.DestinationRule) {
	if !w.isExit(w.fullName(d.Host, r.of.Namespace)) {
		return
	}
	r.unusedAtExit("spec.trafficPolicy", d.GetTrafficPolicy())
	for i, s := range d.Subsets {
		r.unusedAtExit(at("spec.subsets", i, "trafficPolicy"), s.TrafficPolicy)
	}
}

// unusedAtExit says it of the settings for all ports, and of those for the one that what leaves comes to.
func (r *report) unusedAtExit(field string, policy *networking.TrafficPolicy) {
	r.unusedSettings(field, policy)
	for i, p := range policy.GetPortLevelSettings() {
		if p.GetPort().GetNumber() == registry.GatewayPort {
			r.unusedSettings(at(field, "portLevelSettings", i), p)
		}
	}
}

func (r *report) unusedSettings(field string, settings proto.Message) {
	settings.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		switch name := f.JSONName(); name {
		case "tls", "port", "portLevelSettings":
		default:
			r.warn(at(field, name), nil, "has no effect on what leaves by this egress gateway: how its pods are spoken to is the mesh's, whatever rules say",
				"remove it, or write it into a rule for the host outside: that says how the gateway speaks to it")
		}
		return true
	})
}
