package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

// TestInjectBySettingsOfTheCluster takes the settings from a real API server.
func TestInjectBySettingsOfTheCluster(t *testing.T) {
	server := apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true})
	client, err := kubernetes.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]}\n"
	args := []string{"-f", "-", "--kubeconfig", server.Kubeconfig, "--system-namespace", "default"}
	if code, _, stderr := runInject(t, pod, args...); code != exitFailed || !strings.Contains(stderr, "ConfigMap default/sallyport-injector") {
		t.Errorf("without settings: exit code %d, %s", code, stderr)
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: injectorConfigMap}, Data: map[string]string{injectorKey: "image: registry.example/proxy:of-the-cluster\n"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := runInject(t, pod, args...); code != exitDone || !strings.Contains(stdout, "image: registry.example/proxy:of-the-cluster") || strings.Contains(stdout, "--block-quic") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: meshConfigMap}, Data: map[string]string{meshConfigKey: "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := runInject(t, pod, args...); code != exitDone || !strings.Contains(stdout, "--block-quic") {
		t.Errorf("what nobody registered stays in, and QUIC does not: exit code %d, %s\n%s", code, stderr, stdout)
	}
	open := strings.Replace(pod, "{name: web}", `{name: web, annotations: {traffic.sidecar.istio.io/excludeOutboundPorts: "25"}}`, 1)
	if code, _, stderr := runInject(t, open, args...); code != exitNo || !strings.Contains(stderr, "changes: [excludeOutboundPorts]") {
		t.Errorf("what the webhook would refuse: exit code %d, %s", code, stderr)
	}
}
