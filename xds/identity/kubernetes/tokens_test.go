package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/kubetoken"
	"github.com/sallyport/sallyport/xds/identity/workload"
)

// testTokens: a projected token proves its service account and pod, as long as the pod is there, and nothing else does.
func testTokens(t *testing.T, c cluster) {
	c.account(t, "shop", "checkout")
	c.account(t, "shop", "admin")
	pod := c.pod(t, "shop", "checkout-0", "checkout", "10.0.0.1")
	c.pod(t, "shop", "checkout-1", "checkout", "10.0.0.2")
	c.pod(t, "shop", "admin-0", "admin", "10.0.0.3")
	bound := c.token(t, "shop", "checkout", kubetoken.Audience, pod)
	want := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "checkout"}

	a := c.authenticator(t, nil)
	id, of, err := a.AuthenticatePod(incoming(t, bound))
	if err != nil || id != want || of != (identity.Pod{Name: "checkout-0", UID: string(pod.UID), Node: nodeName}) {
		t.Fatalf("AuthenticatePod = %v, %v, %v", id, of, err)
	}
	if id, none, err := a.AuthenticatePod(incoming(t, c.token(t, "shop", "checkout", kubetoken.Audience, nil))); err != nil || id != want || none != (identity.Pod{}) {
		t.Errorf("a token of no pod: %v, %v, %v", id, none, err)
	}

	for _, n := range []struct {
		id   string
		code codes.Code
	}{
		{"sidecar~10.0.0.1~checkout-0.shop~shop.svc.cluster.local", codes.OK},
		{"sidecar~10.0.0.2~checkout-1.shop~shop.svc.cluster.local", codes.PermissionDenied},
		{"sidecar~10.0.0.3~admin-0.shop~shop.svc.cluster.local", codes.PermissionDenied},
		{"sidecar~10.0.0.1~checkout-0.bank~bank.svc.cluster.local", codes.PermissionDenied},
		{"sidecar~10.0.0.9~checkout-0.shop~shop.svc.cluster.local", codes.PermissionDenied},
	} {
		got, err := workload.Bind(id, of, workload.Node{ID: n.id}, c)
		if status.Code(err) != n.code || err == nil && got.Labels["app"] != "checkout-0" {
			t.Errorf("%s: %+v, %v; want %s", n.id, got, err, n.code)
		}
	}

	refused := func(name, token, told string, now func() time.Time) {
		t.Helper()
		_, err := c.authenticator(t, now).Authenticate(incoming(t, token))
		var rejected *identity.Rejected
		if !errors.As(err, &rejected) || !strings.Contains(err.Error(), told) {
			t.Errorf("%s: %v, want a rejection with %q", name, err, told)
		}
	}
	parts := strings.Split(bound, ".")
	other := strings.Split(c.token(t, "shop", "admin", kubetoken.Audience, nil), ".")
	refused("another audience", c.token(t, "shop", "checkout", "vault", pod), `["vault"]`, nil)
	refused("the API server's audience", c.token(t, "shop", "checkout", "", pod), "audience", nil)
	refused("expired", bound, "expired", func() time.Time { return time.Now().Add(2 * time.Hour) })
	refused("another's claims under the signature", parts[0]+"."+other[1]+"."+parts[2], "Kubernetes does not accept it", nil)

	now := int64(0)
	if err := c.CoreV1().Pods("shop").Delete(t.Context(), "checkout-0", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(incoming(t, bound)); err != nil {
		t.Errorf("the answer is not kept for its minute: %v", err)
	}
	var unknown *workload.Unknown
	if _, err := workload.Bind(id, of, workload.Node{ID: "sidecar~10.0.0.1~checkout-0.shop~shop.svc.cluster.local"}, c); !errors.As(err, &unknown) {
		t.Errorf("the node of a pod that is gone: %v", err)
	}
	gone := c.token(t, "shop", "admin", kubetoken.Audience, nil) // asked of before, so that the API server remembers
	if _, err := c.authenticator(t, nil).Authenticate(incoming(t, gone)); err != nil {
		t.Fatal(err)
	}
	again := c.pod(t, "shop", "checkout-0", "checkout", "10.0.0.1")
	if err := c.CoreV1().ServiceAccounts("shop").Delete(t.Context(), "admin", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The API server remembers its own answers for ten seconds.
	for name, token := range map[string]string{"of a pod that is gone, and has a namesake": bound, "of an account that is gone": gone} {
		deadline := time.Now().Add(2 * time.Minute)
		for time.Now().Before(deadline) {
			if _, err := c.authenticator(t, nil).Authenticate(incoming(t, token)); err != nil {
				break
			}
			<-time.After(250 * time.Millisecond)
		}
		refused(name, token, "Kubernetes does not accept it", nil)
	}
	if _, err := c.authenticator(t, nil).Authenticate(incoming(t, c.token(t, "shop", "checkout", kubetoken.Audience, again))); err != nil {
		t.Errorf("the new pod's token: %v", err)
	}
}
