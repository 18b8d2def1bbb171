package kubernetes

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/xds/identity/kubetoken"
)

// cluster is a real API server.
type cluster struct {
	*kubernetes.Clientset
}

// TestKubernetes is one run of one API server: starting it takes seconds.
func TestKubernetes(t *testing.T) {
	config := apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true}).Config
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{client}
	for _, namespace := range []string{"istio-system", "shop", "bank"} {
		c.namespace(t, namespace)
	}
	for name, test := range map[string]func(*testing.T, cluster){
		"tokens": testTokens, "certificates": testCertificates, "one CA": testOneCA, "trust": testTrust, "webhooks": testWebhooks, "traffic": testTraffic,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func (c cluster) namespace(t *testing.T, name string) {
	t.Helper()
	_, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// account makes a service account.
func (c cluster) account(t *testing.T, namespace, name string) {
	t.Helper()
	_, err := c.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// nodeName is where pods are scheduled. There is no kubelet: nothing runs.
const nodeName = "node-1"

// pod makes a pod with an address as a kubelet would give it one.
func (c cluster) pod(t *testing.T, namespace, name, account, ip string) *corev1.Pod {
	t.Helper()
	pods := c.CoreV1().Pods(namespace)
	no := false
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: nodeName, ServiceAccountName: account, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	if pod, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return pod
}

// token asks for a token as a kubelet does; pod nil binds it to none.
func (c cluster) token(t *testing.T, namespace, account, audience string, pod *corev1.Pod) string {
	t.Helper()
	request := &authentication.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	if pod != nil {
		request.Spec.BoundObjectRef = &authentication.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	got, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Token
}

// Pod implements workload.Pods by asking the API.
func (c cluster) Pod(namespace, name string) (labels map[string]string, serviceAccount string, ips []string, ok bool) {
	pod, err := c.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil, "", nil, false
	}
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return pod.Labels, pod.Spec.ServiceAccountName, ips, true
}

// authenticator returns one that has asked nothing yet.
func (c cluster) authenticator(t *testing.T, now func() time.Time) *kubetoken.Authenticator {
	t.Helper()
	a, err := kubetoken.New(kubetoken.Options{Reviews: c.AuthenticationV1().TokenReviews(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// incoming is the context of a call that carries a token.
func incoming(t *testing.T, token string) context.Context {
	return metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+token))
}

func logTo(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
