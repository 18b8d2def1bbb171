package policy

import (
	"fmt"
	"strings"
)

// Suggestion is the YAML that would register the destination for the workload's namespace; "" where a registration
// is not what is missing.
func Suggestion(w Workload, d Destination, v Verdict) string {
	if v.Service != nil || (v.Path != PathBlackhole && v.Path != PathPassthrough) {
		return ""
	}
	name := strings.Trim(strings.NewReplacer("*", "any", ".", "-", ":", "-").Replace(d.Host), "-")
	protocol := map[Scheme]string{HTTP: "HTTP", HTTPS: "HTTPS", TLS: "TLS", TCP: "TCP"}[d.Scheme]
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: %s
  namespace: %s
spec:
  hosts: [%q]
  location: MESH_EXTERNAL
  resolution: DNS
  exportTo: ["."]
  ports:
  - {number: %d, name: %s-%d, protocol: %s}
`, name, w.Namespace, d.Host, d.Port, strings.ToLower(protocol), d.Port, protocol)
}
