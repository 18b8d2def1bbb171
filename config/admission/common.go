package admission

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// port rejects what is no port number; 0 is none either.
func (r *report) port(field string, number uint32) bool {
	if number >= 1 && number <= 65535 {
		return true
	}
	r.reject(field, number, "is no port number", "write a number from 1 to 65535")
	return false
}

// protocols are the ones that ports may name; Istio compares without regard to case.
var protocols = []string{"HTTP", "HTTPS", "HTTP2", "GRPC", "GRPC-WEB", "TCP", "TLS", "UDP", "MONGO", "MYSQL", "REDIS", "HBONE", "HTTP_PROXY", "DOUBLE-HBONE"}

// protocol rejects an unknown protocol and returns the known one in upper case. An empty one is detected at run time.
func (r *report) protocol(field, value string) string {
	p := strings.ToUpper(value)
	if p == "" || slices.Contains(protocols, p) {
		return p
	}
	fix := "use one of " + strings.Join(protocols, ", ")
	if meant := strict.Closest(value, protocols); meant != "" {
		fix = fmt.Sprintf("did you mean %q?", meant)
	}
	r.reject(field, value, "unknown protocol", fix)
	return p
}

func isHTTP(protocol string) bool {
	return slices.Contains([]string{"HTTP", "HTTP2", "GRPC", "GRPC-WEB", "HTTP_PROXY"}, protocol)
}

func isTLS(protocol string) bool { return protocol == "HTTPS" || protocol == "TLS" }

// exportTo rejects what Istio does: unknown values, the same namespace twice, "*" or "~" beside others.
func (r *report) exportTo(field string, values []string) {
	seen := map[string]bool{}
	for i, v := range values {
		where, ns := at(field, i), v
		switch {
		case v == ".":
			ns = r.of.Namespace
		case v == "~" && r.of.Kind != config.KindServiceEntry:
			r.reject(where, v, "only ServiceEntries can be exported to nobody", `write ".", "*" or the name of a namespace`)
		case v != "*" && v != "~" && !isLabel(v):
			r.reject(where, v, "is no namespace", `write ".", "*" or the name of a namespace`)
		case v != strings.ToLower(v):
			r.warn(where, v, "no namespace has a capital letter in its name, so nobody is meant", fmt.Sprintf("write %q", strings.ToLower(v)))
		}
		switch {
		case seen[ns]:
			r.reject(where, v, "names a namespace for the second time", "remove it")
		case (v == "*" || v == "~") && len(values) > 1:
			r.reject(where, v, fmt.Sprintf("%q cannot stand beside other values", v), "write it alone, or remove it")
		}
		seen[ns] = true
	}
}

// selector rejects label selectors that Istio refuses.
func (r *report) selector(field string, labels map[string]string) {
	for _, k := range sortedKeys(labels) {
		v, where := labels[k], strict.Join(field, k)
		switch {
		case k == "":
			r.reject(where, v, "the label's key is empty", "write KEY: VALUE")
		case strings.Contains(k, "*") || strings.Contains(v, "*"):
			r.reject(where, v, "wildcards are not supported in selectors", "write the label's full key and value")
		}
	}
}

// labels rejects keys and values that Kubernetes does not take.
func (r *report) labels(field string, labels map[string]string) {
	for _, k := range sortedKeys(labels) {
		if errs := validation.IsQualifiedName(k); len(errs) > 0 {
			r.reject(strict.Join(field, k), k, "is no label's key", "use letters, digits, '-', '_' and '.', at most 63")
		}
		if errs := validation.IsValidLabelValue(labels[k]); len(errs) > 0 {
			r.reject(strict.Join(field, k), labels[k], "is no label's value", "use letters, digits, '-', '_' and '.', at most 63")
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// prefix rejects what is neither an address nor a CIDR block; it says whether it is a block.
func (r *report) prefix(field, value string) (block bool) {
	if strings.Contains(value, "/") {
		p, err := netip.ParsePrefix(value)
		switch {
		case err != nil:
			r.reject(field, value, "is no CIDR block", `write ADDRESS/BITS as in "10.0.0.0/8"`)
		case p != p.Masked():
			r.warn(field, value, "has bits set behind its length", fmt.Sprintf("write %q if that block is meant", p.Masked()))
		}
		return true
	}
	if !isAddress(value) && !r.otherForm(field, value) {
		r.reject(field, value, "is neither an IP address nor a CIDR block", `write it as in "10.0.0.1" or "10.0.0.0/8"`)
	}
	return false
}

// otherForm rejects an IP address that is written as it is in URLs, in brackets or with a port, and says whether it is one.
func (r *report) otherForm(field, value string) bool {
	inner, bracketed := strings.CutPrefix(value, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if addr, err := netip.ParseAddr(inner); bracketed && closed && err == nil {
		r.reject(field, value, "an IPv6 address has no brackets here", fmt.Sprintf("write %q", addr))
		return true
	}
	if at, err := netip.ParseAddrPort(value); err == nil {
		r.reject(field, value, "an IP address has no port here", fmt.Sprintf("write %q, and the port where ports are", at.Addr()))
		return true
	}
	return false
}

// positive rejects durations below a millisecond, and those with parts of one. nil is fine.
func (r *report) positive(field string, d *durationpb.Duration) {
	switch {
	case d == nil:
	case d.AsDuration() < time.Millisecond:
		r.reject(field, d.AsDuration(), "is too short", "write at least 1ms")
	case d.AsDuration()%time.Millisecond != 0:
		r.reject(field, d.AsDuration(), "has parts of a millisecond", "write "+d.AsDuration().Truncate(time.Millisecond).String())
	}
}

// The names of Istio's API are DNS labels (RFC 1123 section 2.1) in upper or lower case.
var labelForm = regexp.MustCompile(`^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$`)

func isLabel(s string) bool { return len(s) <= 63 && labelForm.MatchString(s) }

// isObjectName says whether an object of the cluster may have a name (RFC 1123 section 2.1, as Kubernetes reads it).
func isObjectName(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }

// namespace rejects what is no namespace's name.
func (r *report) namespace(field, value string) {
	if !isLabel(value) {
		r.reject(field, value, "is no namespace", "write a namespace's name")
	}
}

// hostPattern checks a name or a wildcard, also of the partial kind ("*-api.example.com"), which Istio's API takes and
// nothing is matched by here. any is whether "*" may stand alone.
func (r *report) hostPattern(field, value string, any bool) {
	if host.Partial(value) {
		r.warn(field, value, "a partial wildcard matches no host: \"*\" stands for the whole first label", "write it as in "+wholeLabel(value))
		return
	}
	parse := host.Parse
	if any {
		parse = host.ParsePattern
	}
	if _, err := parse(value); err != nil {
		r.hostError(field, value, err)
	}
}

// wholeLabel is the wildcard that a partial one was probably meant to be.
func wholeLabel(partial string) string {
	rest := strings.TrimLeft(partial, "*-")
	if strings.Count(rest, ".") > 1 {
		_, rest, _ = strings.Cut(rest, ".")
	}
	return `"*.` + rest + `"`
}

// unixPath rejects what is no path of a socket: absolute, or of an abstract one.
func (r *report) unixPath(field, value string) {
	path := strings.TrimPrefix(value, unixPrefix)
	if !strings.HasPrefix(path, "@") && (!strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/")) {
		r.reject(field, value, "is no absolute path of a socket", "write unix:///PATH, or unix://@NAME for an abstract socket")
	}
}

// annotationPrefix begins our annotations; GatewayAnnotation picks the egress gateway of a ServiceEntry or of a
// whole Namespace: "NAMESPACE/SERVICE", or "direct" for none. MachinesAnnotation is a WorkloadGroup's, with the ranges that its machines' addresses are in,
// where their connections do not show them.
const (
	annotationPrefix   = "egress.sallyport.io/"
	GatewayAnnotation  = annotationPrefix + "gateway"
	MachinesAnnotation = annotationPrefix + "machine-addresses"
)

func (r *report) annotations() {
	for _, name := range slices.Sorted(maps.Keys(r.of.Annotations)) {
		value, field := r.of.Annotations[name], strict.Join("metadata.annotations", name)
		switch {
		case name == GatewayAnnotation:
			r.gatewayAnnotation(field, value)
		case name == MachinesAnnotation && r.of.Kind == config.KindWorkloadGroup:
			if _, err := MachineRanges(value); err != nil {
				r.reject(field, value, err.Error(), "write addresses and ranges with commas between them, like 10.1.0.0/16,192.0.2.7")
			}
		case name == gatewayapi.HTTP3Annotation && r.of.Kind == config.KindKubeGateway:
			if value != "true" && value != "false" {
				r.warn(field, value, "says nothing, and nothing is deployed for the Gateway", "write true or false")
			}
		case strings.HasPrefix(name, annotationPrefix):
			fix := "remove it; the only one is " + GatewayAnnotation
			if strict.Closest(name, []string{GatewayAnnotation}) != "" {
				fix = fmt.Sprintf("did you mean %q?", GatewayAnnotation)
			}
			r.warn(field, value, "unknown annotation, it has no effect", fix)
		}
	}
}

func (r *report) gatewayAnnotation(field, value string) {
	if _, err := mesh.ParseGateway(value); err != nil {
		r.reject(field, value, "is no gateway", `write NAMESPACE/SERVICE as in "istio-system/istio-egressgateway", or "direct" for none`)
		return
	}
	switch spec := r.of.Spec.(type) {
	case *networking.ServiceEntry:
		if spec.Location == networking.ServiceEntry_MESH_INTERNAL {
			r.warn(field, value, "has no effect on a host that is inside the mesh", "set spec.location to MESH_EXTERNAL, or remove the annotation")
		}
	default:
		if r.of.Kind != config.KindNamespace {
			r.warn(field, value, fmt.Sprintf("has no effect on a %s", r.of.Kind), "put it on the ServiceEntry, or on its Namespace")
		}
	}
}
