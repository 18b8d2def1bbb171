package apply

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/suggest"
)

func read(t *testing.T, text string) *config.Object {
	t.Helper()
	r := decode.File("x.yaml", []byte(text))
	if len(r.Objects) != 1 {
		t.Fatal(r.Findings)
	}
	return &r.Objects[0]
}

func entry(t *testing.T, name, hosts string) *config.Object {
	return read(t, "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: "+name+", namespace: shop}\nspec: {hosts: ["+hosts+"], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}\n")
}

// lab is an API server, and people with tokens.
type lab struct {
	*testing.T
	admin   *rest.Config
	client  kubernetes.Interface
	entries dynamic.ResourceInterface
}

func startLab(t *testing.T) *lab {
	admin := apiserver.Start(t)
	l := &lab{T: t, admin: admin, client: kubernetes.NewForConfigOrDie(admin), entries: dynamic.NewForConfigOrDie(admin).Resource(resources[config.KindServiceEntry]).Namespace("shop")}
	_, err := l.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	l.must(err)
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// as is the access of a service account that may do so much with entries and policies of shop.
func (l *lab) as(name string, verbs ...string) *rest.Config {
	l.Helper()
	ctx, made := l.Context(), metav1.ObjectMeta{Name: name, Namespace: "shop"}
	_, err := l.client.CoreV1().ServiceAccounts("shop").Create(ctx, &corev1.ServiceAccount{ObjectMeta: made}, metav1.CreateOptions{})
	l.must(err)
	_, err = l.client.RbacV1().Roles("shop").Create(ctx, &rbacv1.Role{ObjectMeta: made, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"networking.istio.io", "egress.sallyport.io"}, Resources: []string{"serviceentries", "egresspolicies"}, Verbs: verbs},
	}}, metav1.CreateOptions{})
	l.must(err)
	_, err = l.client.RbacV1().RoleBindings("shop").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: made, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: "shop"}},
	}, metav1.CreateOptions{})
	l.must(err)
	l.must(world.Within(ctx, time.Minute, func() error { // the API server reads roles some moments after they were written
		a, err := l.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:shop:" + name, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop", Verb: verbs[0], Group: "networking.istio.io", Resource: "serviceentries"},
		}}, metav1.CreateOptions{})
		if err == nil && !a.Status.Allowed {
			err = context.DeadlineExceeded
		}
		return err
	}))
	token, err := l.client.CoreV1().ServiceAccounts("shop").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	l.must(err)
	return As(l.admin, token.Status.Token)
}

// live is an object as it is there; nil if it is not.
func (l *lab) live(name string) *unstructured.Unstructured {
	o, err := l.entries.Get(l.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

// write makes an object as people do by hand.
func (l *lab) write(o *config.Object) {
	l.Helper()
	manifest, err := suggest.Manifest(o)
	l.must(err)
	text, err := json.Marshal(manifest)
	l.must(err)
	made := &unstructured.Unstructured{}
	l.must(made.UnmarshalJSON(text))
	_, err = l.entries.Create(l.Context(), made, metav1.CreateOptions{})
	l.must(err)
}

// refused holds that something is not done, and why.
func (l *lab) refused(as *rest.Config, want string, changes ...suggest.Change) {
	l.Helper()
	if p, err := Prepare(l.Context(), as, changes); err == nil || !strings.Contains(err.Error(), want) {
		l.Errorf("%s: %v, want %q", p, err, want)
	}
}

// TestApply: who may write objects has them applied, as a manager of fields; who may not is refused, before anything is there. Nothing that changed meanwhile,
// or that another one keeps, is written over.
func TestApply(t *testing.T) {
	l := startLab(t)
	may, reads, ctx := l.as("may", "get", "create", "update"), l.as("reads", "get"), t.Context()
	one, two := entry(t, "one", "one.test"), entry(t, "one", "one.test, two.test")
	l.refused(reads, "your own rights do not allow it", suggest.Change{After: one})
	l.refused(As(l.admin, "nobody's"), "does not know you", suggest.Change{After: one})
	l.refused(may, "hosts", suggest.Change{After: entry(t, "bad", `"not a host"`)})

	p, err := Prepare(ctx, may, []suggest.Change{{After: one}})
	l.must(err)
	if l.live("one") != nil {
		t.Fatal("preparing wrote the object")
	}
	l.must(p.Apply(ctx))
	is := l.live("one")
	if is == nil || len(is.GetManagedFields()) != 1 || is.GetManagedFields()[0].Manager != Manager || is.GetManagedFields()[0].Operation != metav1.ManagedFieldsOperationUpdate {
		t.Fatalf("%+v", is)
	}

	l.refused(may, "is there by now", suggest.Change{After: one})
	l.refused(may, "another one by now", suggest.Change{Before: two, After: one})
	l.refused(may, "another one by now", suggest.Change{Before: entry(t, "gone", "x.test"), After: entry(t, "gone", "y.test")})
	l.refused(reads, "your own rights do not allow it", suggest.Change{Before: one, After: two})

	p, err = Prepare(ctx, may, []suggest.Change{{Before: one, After: two}})
	l.must(err)
	touched := l.live("one").DeepCopy() // somebody writes between the two
	touched.SetLabels(map[string]string{"a": "b"})
	_, err = l.entries.Update(ctx, touched, metav1.UpdateOptions{})
	l.must(err)
	if err := p.Apply(ctx); err == nil || !strings.Contains(err.Error(), "at the same time") {
		t.Errorf("what somebody wrote meanwhile is written over: %v", err)
	}
	p, err = Prepare(ctx, may, []suggest.Change{{Before: one, After: two}})
	l.must(err)
	l.must(p.Apply(ctx))
	if hosts, _, _ := unstructured.NestedStringSlice(l.live("one").Object, "spec", "hosts"); len(hosts) != 2 || l.live("one").GetLabels()["a"] != "b" {
		t.Errorf("%v", l.live("one"))
	}

	kept := &unstructured.Unstructured{}
	manifest, err := suggest.Manifest(entry(t, "kept", "kept.test"))
	l.must(err)
	kept.Object = manifest
	_, err = l.entries.Apply(ctx, "kept", kept, metav1.ApplyOptions{FieldManager: "argocd-controller"})
	l.must(err)
	l.refused(may, `"argocd-controller" applies it`, suggest.Change{Before: entry(t, "kept", "kept.test"), After: entry(t, "kept", "kept.test, more.test")})

	for name, mark := range map[string]string{
		"argo": "annotations: {argocd.argoproj.io/tracking-id: 'apps:x'}", "file": "annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}", "helm": "labels: {app.kubernetes.io/managed-by: Helm}",
		"flux": "labels: {kustomize.toolkit.fluxcd.io/name: apps}", "release": "labels: {helm.toolkit.fluxcd.io/name: apps}", "own": "labels: {app.kubernetes.io/managed-by: sallyport}",
	} {
		is := read(t, "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: "+name+", namespace: shop, "+mark+"}\nspec: {hosts: ["+name+".test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}\n")
		l.write(is)
		more := suggest.Change{Before: is, After: entry(t, name, name+".test, more.test")}
		if name == "own" {
			_, err := Prepare(ctx, may, []suggest.Change{more})
			l.must(err)
			continue
		}
		of, _, _ := strings.Cut(strings.SplitAfter(mark, "{")[1], ":")
		l.refused(may, of, more)
	}

	// of two the first is tried as well as the second, and neither is there if one is refused
	l.refused(may, "is there by now", suggest.Change{After: entry(t, "fresh", "fresh.test")}, suggest.Change{After: one})
	if l.live("fresh") != nil {
		t.Error("a part of it was applied")
	}
}

// TestNothingIsMergedInto: two who prepared the same new object do not write into each other's, nor into one that somebody wrote between.
func TestNothingIsMergedInto(t *testing.T) {
	l := startLab(t)
	may, ctx := l.as("may", "get", "create", "patch", "update"), t.Context()
	prepare := func(name, host string) Prepared {
		p, err := Prepare(ctx, may, []suggest.Change{{After: entry(t, name, host)}})
		l.must(err)
		return p
	}
	late := func(p Prepared, name, is string) {
		t.Helper()
		if err := p.Apply(ctx); err == nil || !strings.Contains(err.Error(), "is there by now") || strings.Contains(err.Error(), "may be written") {
			t.Errorf("%v", err)
		}
		if hosts, _, _ := unstructured.NestedStringSlice(l.live(name).Object, "spec", "hosts"); len(hosts) != 1 || hosts[0] != is {
			t.Errorf("%s is %v, want %s", name, hosts, is)
		}
	}
	first, second := prepare("one", "first.test"), prepare("one", "second.test")
	l.must(first.Apply(ctx))
	late(second, "one", "first.test")
	between := prepare("two", "ours.test")
	l.write(entry(t, "two", "theirs.test"))
	late(between, "two", "theirs.test")
}

// TestUnknown: of what was not refused nobody knows whether it is there, and that is said.
func TestUnknown(t *testing.T) {
	l := startLab(t)
	may, lost := l.as("may", "get", "create"), false
	may.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return trip(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if lost && err == nil { // it was written, and who asked for it is not told
				answer, err = nil, errors.Join(errors.New("the connection broke"), answer.Body.Close())
			}
			return answer, err
		})
	})
	p, err := Prepare(t.Context(), may, []suggest.Change{{After: entry(t, "lost", "lost.test")}})
	l.must(err)
	lost = true
	if err := p.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "may be written") || l.live("lost") == nil {
		t.Errorf("%v", err)
	}
}

type trip func(*http.Request) (*http.Response, error)

func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
