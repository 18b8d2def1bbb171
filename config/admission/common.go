package admission

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
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
	if !isAddress(value) {
		r.reject(field, value, "is neither an IP address nor a CIDR block", `write it as in "10.0.0.1" or "10.0.0.0/8"`)
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
