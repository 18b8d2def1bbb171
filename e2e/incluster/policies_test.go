package incluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// allowAny lets one workload out where the mesh does not.
const allowAny = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: free, namespace: shop}
spec:
  workloadSelector: {labels: {app: app}}
  outboundTrafficPolicy: {mode: ALLOW_ANY}
  egress:
  - hosts: ["*/*"]
`

// policies: a Sidecar lets its workload out, straight from the pod and recorded with the name; an entry may name no
// gateway; and both end with their objects.
func (s *stage) policies(app string) {
	s.startApp(shop, "other")
	other := s.podIP(shop, "other")
	s.apply(allowAny)
	s.becomes("what nobody registered is let through", time.Minute, func() error { return reaches(s.Context(), app, "http://"+nobody+"/free") })
	s.becomes("TLS that nobody registered is", time.Minute, func() error { return reaches(s.Context(), app, "https://"+nobody+"/free") })
	s.saw("/free", app)
	s.must(blocked(s.Context(), other, "http://"+nobody+"/other"))
	s.becomes("the log has the name", time.Minute, func() error {
		got, err := s.records("--since", "10m", "--verdict", "allowed", "--host", nobody)
		if err == nil && !slices.ContainsFunc(got, func(r record.Record) bool { return r.Path == record.PathPassthrough }) {
			err = fmt.Errorf("the log has: %+v", got)
		}
		return err
	})
	s.kubectl("delete", "sidecars.networking.istio.io", "-n", shop, "free")
	s.becomes("it is closed again", time.Minute, func() error { return blocked(s.Context(), app, "http://"+nobody+"/late") })

	s.apply(strings.Replace(entry(shop, "direct", second), "metadata: {", `metadata: {annotations: {egress.sallyport.io/gateway: direct}, `, 1))
	s.becomes("a host without gateway is reached", time.Minute, func() error { return reaches(s.Context(), other, "https://"+second+"/direct") })
	s.saw("/direct", other)
	s.kubectl("delete", "serviceentry", "-n", shop, "direct")
	s.kubectl("delete", "deployment", "-n", shop, "other")
}

// saw fails unless all requests for the path came from this address.
func (s *stage) saw(path, from string) {
	s.Helper()
	seen := s.outside.Sightings(path)
	if len(seen) == 0 {
		s.Errorf("the outside did not see %s", path)
	}
	for _, v := range seen {
		if v.Peer.Addr().String() != from {
			s.Errorf("the outside saw %s, want it from %s", v, from)
		}
	}
}
