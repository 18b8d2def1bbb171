package chart

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	injector  = "sallyport-injector-" + namespace
	validator = "sallyport-validator-" + namespace
)

// installs what `make chart` packages, with everything but what needs other people's CRDs.
func (c *cluster) installs(t *testing.T) {
	dir := c.dir
	if out, err := exec.CommandContext(t.Context(), "./package", "v1.2.3", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.pack = filepath.Join(dir, "sallyport-1.2.3.tgz")
	notes := c.helm(t, "install", "sallyport", c.pack, "--values", "testdata/everything.values.yaml",
		"--set", "image.tag=", "--set", "monitoring.serviceMonitor.enabled=false", "--set", "monitoring.podMonitor.enabled=false")
	c.kinds.Reset()
	if !strings.Contains(notes, "kind: ServiceEntry") || !strings.Contains(notes, "audit query") {
		t.Errorf("the notes do not say how to allow a host and see it:\n%s", notes)
	}

	d, err := c.client.AppsV1().Deployments(namespace).Get(t.Context(), "sallyport", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.Spec.Template.Spec.Containers[0].Image, "registry.example/mesh/sallyport:1.2.3"; got != want {
		t.Errorf("image %s, want %s", got, want)
	}
	if _, err := c.resource(t, serviceEntry()).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the CRDs are not there: %v", err)
	}
}

func serviceEntry() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": map[string]any{"namespace": "shop"},
	}}
}

// upgradeKeeps: neither a change of values nor --force takes the CA or a caBundle away, and only a change of
// configuration makes the controller's pods anew.
func (c *cluster) upgradeKeeps(t *testing.T) {
	own, err := c.client.CoreV1().Secrets(namespace).Get(t.Context(), "istio-ca-secret", metav1.GetOptions{})
	if err != nil || len(own.Data["ca-key.pem"]) == 0 {
		t.Fatalf("the CA's Secret: %v, %d entries", err, len(own.Data))
	}
	before := c.podAnnotations(t)
	for _, step := range []struct {
		args []string
		anew bool
	}{
		{[]string{"--set", "audit.retention=90d"}, false},
		{[]string{"--set", "meshConfig.outboundTrafficPolicy.mode=ALLOW_ANY", "--set", "injector.failurePolicy=Ignore", "--force"}, true},
	} {
		c.helm(t, append([]string{"upgrade", "sallyport", c.pack, "--reuse-values"}, step.args...)...)
		after := c.podAnnotations(t)
		if anew := after != before; anew != step.anew {
			t.Errorf("upgrade %v: pods made anew: %t, want %t", step.args, anew, step.anew)
		}
		before = after
		for name, is := range c.written(t) {
			want := "roots"
			if strings.HasSuffix(name, " path") {
				want = "/validate/key"
			}
			if is != want {
				t.Errorf("upgrade %v: of %s there is %q", step.args, name, is)
			}
		}
		got, err := c.client.CoreV1().Secrets(namespace).Get(t.Context(), "istio-ca-secret", metav1.GetOptions{})
		if err != nil || string(got.Data["ca-key.pem"]) != string(own.Data["ca-key.pem"]) {
			t.Errorf("upgrade %v: the CA's Secret: %v, %d entries", step.args, err, len(got.Data))
		}
	}
}

// written are the caBundles in plain, by webhook, and the path of what validates.
func (c *cluster) written(t *testing.T) map[string]string {
	t.Helper()
	api, all := c.client.AdmissionregistrationV1(), map[string]string{}
	m, err := api.MutatingWebhookConfigurations().Get(t.Context(), injector, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range m.Webhooks {
		all[hook.Name] = string(hook.ClientConfig.CABundle)
	}
	v, err := api.ValidatingWebhookConfigurations().Get(t.Context(), validator, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range v.Webhooks {
		all[hook.Name] = string(hook.ClientConfig.CABundle)
		all[hook.Name+" path"] = *cmp.Or(hook.ClientConfig.Service.Path, new(string))
	}
	return all
}

func (c *cluster) podAnnotations(t *testing.T) string {
	t.Helper()
	d, err := c.client.AppsV1().Deployments(namespace).Get(t.Context(), "sallyport", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(d.Spec.Template.Annotations)
}

func (c *cluster) removal(t *testing.T) {
	c.helm(t, "uninstall", "sallyport", "--wait=false")
	api := c.client.AdmissionregistrationV1()
	if _, err := api.MutatingWebhookConfigurations().Get(t.Context(), injector, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the injector's webhook: %v, want that it is gone", err)
	}
	if _, err := api.ValidatingWebhookConfigurations().Get(t.Context(), validator, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the validator's webhook: %v, want that it is gone", err)
	}
	if _, err := c.client.RbacV1().ClusterRoles().Get(t.Context(), "sallyport-"+namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ClusterRole: %v, want that it is gone", err)
	}
	if _, err := c.client.CoreV1().Secrets(namespace).Get(t.Context(), "istio-ca-secret", metav1.GetOptions{}); err != nil {
		t.Errorf("the CA's Secret: %v", err)
	}
	if _, err := c.resource(t, serviceEntry()).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the CRDs, and what users wrote: %v", err)
	}
}
