package apiserver_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

var serviceEntries = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "serviceentries"}

func TestServesIstioObjectsAndTokens(t *testing.T) {
	config := apiserver.Start(t)
	ctx := t.Context()

	// The namespace "default" comes some moments after readiness; a test makes its own.
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := entries(config).Create(ctx, entry(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	if _, err := client.CoreV1().ServiceAccounts("shop").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}}}
	token, err := client.CoreV1().ServiceAccounts("shop").CreateToken(ctx, "web", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token, Audiences: []string{"istio-ca"}}}
	review, err = client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !review.Status.Authenticated || review.Status.User.Username != "system:serviceaccount:shop:web" {
		t.Errorf("review of the token: %+v", review.Status)
	}
}

func TestCRDsLater(t *testing.T) {
	server := apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true})
	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entries(config).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("listing what has no CRD: %v, want that it is not found", err)
	}
	if err := apiserver.ApplyMeshCRDs(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := entries(config).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

func entries(config *rest.Config) dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(config).Resource(serviceEntries).Namespace("shop")
}

func entry() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
		"metadata": map[string]any{"name": "api"},
		"spec": map[string]any{
			"hosts": []any{"api.example.com"}, "location": "MESH_EXTERNAL", "resolution": "DNS",
			"ports": []any{map[string]any{"number": int64(443), "name": "tls", "protocol": "TLS"}},
		},
	}}
}
