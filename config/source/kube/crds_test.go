package kube

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

const sidecar = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: a, namespace: crds}
spec: {egress: [{hosts: ["./*"]}]}`

// comesAndGoes deletes a CRD and applies it again.
func comesAndGoes(t *testing.T, c *cluster) {
	key := config.Key{Kind: config.KindSidecar, Namespace: "crds", Name: "a"}
	c.apply(namespace("crds"))
	c.apply(sidecar)
	c.apply(entry("crds", "a", "a.com"))
	r := startSource(t, c.access, Options{})
	r.until("crds", "a=a.com")
	if r.state[key] == nil {
		t.Fatal("no Sidecar in the first batch")
	}
	crds := c.client.Resource(crdResource)
	if err := crds.Delete(context.Background(), "sidecars.networking.istio.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for r.state[key] != nil {
		r.next()
	}
	r.untilFinding("warning: there is no CustomResourceDefinition sidecars.networking.istio.io")
	r.until("crds", "a=a.com")
	eventually(t, "the CRD is gone", func() bool {
		_, err := crds.Get(context.Background(), "sidecars.networking.istio.io", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})

	late := startSource(t, c.access, Options{}) // one that begins without it
	late.until("crds", "a=a.com")
	late.untilFinding("there is no CustomResourceDefinition sidecars")

	if err := apiserver.ApplyMeshCRDs(context.Background(), c.access); err != nil {
		t.Fatal(err)
	}
	c.apply(sidecar)
	for _, r := range []*sourceAtWork{r, late} {
		for r.state[key] == nil {
			r.next()
		}
		eventually(t, "no findings are left", func() bool { return len(r.faults()) == 0 })
	}
}

// olderVersions takes versions away and gives them back.
func olderVersions(t *testing.T, c *cluster) {
	c.apply(namespace("versions"))
	c.apply(entry("versions", "a", "a.com"))
	r := startSource(t, c.access, Options{})
	r.until("versions", "a=a.com")
	crds := c.client.Resource(crdResource)
	serve := func(index, value string) {
		t.Helper()
		patch := `[{"op":"replace","path":"/spec/versions/` + index + `/served","value":` + value + `}]`
		if _, err := crds.Patch(context.Background(), "serviceentries.networking.istio.io", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	seen := r.seen
	serve("0", "false") // v1
	key := config.Key{Kind: config.KindServiceEntry, Namespace: "versions", Name: "a"}
	eventually(t, "another version is watched", func() bool {
		r.store.mu.Lock()
		defer r.store.mu.Unlock()
		return r.store.kinds[key.Kind].version == "v1beta1"
	})
	older := entry("versions", "b", "b.com")
	o := c.in("ServiceEntry", "networking.istio.io/v1beta1", "versions")
	c.applyTo(o, older, "networking.istio.io/v1beta1")
	r.until("versions", "a=a.com", "b=b.com")
	if r.seen != seen+1 {
		t.Errorf("%d changes for one", r.seen-seen)
	}
	serve("0", "true")
	eventually(t, "the version is back", func() bool {
		r.store.mu.Lock()
		defer r.store.mu.Unlock()
		return r.store.kinds[key.Kind].version == "v1"
	})
	c.applyTo(c.in("ServiceEntry", "networking.istio.io/v1", "versions"), entry("versions", "c", "c.com"), "networking.istio.io/v1")
	r.until("versions", "a=a.com", "b=b.com", "c=c.com")
	if r.seen != seen+2 {
		t.Errorf("%d changes for two", r.seen-seen)
	}
}
