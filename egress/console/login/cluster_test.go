package login

import (
	"context"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

// TestKubernetes asks a real API server, with real tokens and roles.
func TestKubernetes(t *testing.T) {
	client, err := kubernetes.NewForConfig(apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true}).Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"people", "shop", "bank"} {
		must(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	token := func(name string) string {
		must(client.CoreV1().ServiceAccounts("people").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		given, err := client.CoreV1().ServiceAccounts("people").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		must(given, err)
		return given.Status.Token
	}
	auditor, owner, stranger := token("auditor"), token("owner"), token("stranger")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "log-reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{Group}, Resources: []string{Resource}, Verbs: []string{Verb}}}}
	must(client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}))
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	of := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "people", Name: name}}
	}
	must(client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "auditor"}, RoleRef: ref, Subjects: of("auditor")}, metav1.CreateOptions{}))
	must(client.RbacV1().RoleBindings("shop").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "owner"}, RoleRef: ref, Subjects: of("owner")}, metav1.CreateOptions{}))

	g := New(Options{Cluster: Kubernetes(client), Namespaces: func(context.Context) ([]string, error) { return []string{"shop", "bank", "gone"}, nil }})
	if r, err := g.Reader(bearer(auditor)); err != nil || !r.All || r.Name != "system:serviceaccount:people:auditor" {
		t.Errorf("auditor: %+v, %v", r, err)
	}
	if r, err := g.Reader(bearer(owner)); err != nil || r.All || len(r.Namespaces) != 1 || r.Namespaces[0] != "shop" {
		t.Errorf("owner: %+v, %v", r, err)
	}
	if r, err := g.Reader(bearer(stranger)); !errors.Is(err, ErrNothing) {
		t.Errorf("stranger: %+v, %v", r, err)
	}
	if r, err := g.Reader(bearer(owner + "x")); !errors.Is(err, ErrUnknown) {
		t.Errorf("a token that was changed: %+v, %v", r, err)
	}
}
