package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
)

const rightsOnSecrets = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [networking.istio.io], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [namespaces, services, pods], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: creds}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: creds}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]`

func ruleNaming(ns, name, credential string) string {
	return "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: " + name + ", namespace: " + ns +
		"}\nspec: {host: a.com, trafficPolicy: {tls: {mode: MUTUAL, credentialName: " + credential + "}}}"
}

func secretOf(ns, name, value string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: " + ns + ", annotations: {note: kept}}\nstringData: {tls.key: " + value + "}"
}

// namedSecrets reads Secrets as far as rules name them, with rights on one namespace.
func namedSecrets(t *testing.T, c *cluster) {
	for _, ns := range []string{"creds", "others"} {
		c.apply(namespace(ns))
	}
	c.apply(rightsOnSecrets)
	for _, o := range []string{secretOf("creds", "client", "one"), secretOf("creds", "private", "two"), secretOf("others", "client", "three"), ruleNaming("creds", "first", "client"), ruleNaming("others", "strange", "client")} {
		c.apply(o)
	}
	access := rest.CopyConfig(c.access)
	access.Impersonate = rest.ImpersonationConfig{UserName: "reader", Groups: []string{"system:authenticated"}}
	r := startSource(t, access, Options{Patience: 300 * time.Millisecond})
	key := func(ns, name string) config.Key {
		return config.Key{Kind: config.KindSecret, Namespace: ns, Name: name}
	}
	value := func(k config.Key) string {
		if o := r.state[k]; o != nil {
			return string(o.Spec.(*corev1.Secret).Data["tls.key"])
		}
		return ""
	}
	for value(key("creds", "client")) != "one" { // rights take a moment to be in force
		r.next()
	}
	again := startSource(t, access, Options{Patience: 300 * time.Millisecond})
	again.next()
	if again.state[key("creds", "client")] == nil {
		t.Error("the first batch does not wait for the Secret that a rule names")
	}
	r.untilFinding("the control plane may not read it")
	for _, f := range r.Findings() {
		if f.Key.Kind == config.KindSecret && (f.Key.Namespace != "others" || !strings.Contains(f.Fix, "credentials.namespaces hold others")) {
			t.Errorf("finding %v", f)
		}
	}
	c.apply(secretOf("creds", "client", "renewed"))
	for value(key("creds", "client")) != "renewed" {
		r.next()
	}
	c.apply(ruleNaming("creds", "first", "private"))
	for value(key("creds", "private")) != "two" || r.state[key("creds", "client")] != nil {
		r.next()
	}
	for k := range r.state {
		if k.Kind == config.KindSecret && k != key("creds", "private") {
			t.Errorf("%s is in memory", k)
		}
	}
	c.delete("Secret", "v1", "creds", "private")
	for r.state[key("creds", "private")] != nil {
		r.next()
	}
	c.delete("DestinationRule", "networking.istio.io/v1", "creds", "first")
	c.delete("DestinationRule", "networking.istio.io/v1", "others", "strange")
	// a Gateway of any namespace names Secrets of the namespace where the Service of its pods is
	for _, o := range []string{
		secretOf("creds", "served", "four"),
		"apiVersion: v1\nkind: Service\nmetadata: {name: ingress, namespace: creds}\nspec: {selector: {istio: in, app: in}, ports: [{name: https, port: 443}]}",
		"apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: public, namespace: others}\nspec: {selector: {istio: in}, servers: [{port: {number: 443, name: h, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: served}}]}",
	} {
		c.apply(o)
	}
	for value(key("creds", "served")) != "four" {
		r.next()
	}
	c.delete("Gateway", "networking.istio.io/v1", "others", "public")
	for r.state[key("creds", "served")] != nil {
		r.next()
	}
	c.delete("Service", "v1", "creds", "ingress")
}
