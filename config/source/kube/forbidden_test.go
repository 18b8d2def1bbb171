package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
)

const rights = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: some}
rules:
- {apiGroups: [networking.istio.io, security.istio.io, telemetry.istio.io, extensions.istio.io, egress.sallyport.io], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
- {apiGroups: [""], resources: [namespaces, nodes, services], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: some}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: some}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: some}]`

// forbidden looks with rights to everything but Pods and CustomResourceDefinitions.
func forbidden(t *testing.T, c *cluster) {
	c.apply(rights)
	c.apply(namespace("forbidden"))
	c.apply(entry("forbidden", "a", "a.com"))
	access := rest.CopyConfig(c.access)
	access.Impersonate = rest.ImpersonationConfig{UserName: "some"}
	r := startSource(t, access, Options{Patience: 300 * time.Millisecond})
	r.until("forbidden", "a=a.com")
	r.untilFinding("objects of kind Pod cannot be read: pods is forbidden")
	eventually(t, "that is the only finding", func() bool { // the rights were not in force at once
		f := r.faults()
		return len(f) == 1 && strings.Contains(f[0].Fix, "list and watch pods")
	})
	// Once it is allowed, it comes.
	c.apply(strings.Replace(rights, "[namespaces, nodes, services]", "[namespaces, nodes, services, pods]", 1))
	c.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: late, namespace: forbidden}\nspec: {containers: [{name: c, image: i}]}")
	for r.state[config.Key{Kind: config.KindPod, Namespace: "forbidden", Name: "late"}] == nil {
		r.next()
	}
	eventually(t, "no findings are left", func() bool { return len(r.faults()) == 0 })
}

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func mustClients(t *testing.T, s *Source) *clients {
	t.Helper()
	c, err := newClients(s.config, s.kinds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}
