package kubetrust

import (
	"bytes"
	"context"
	"net/url"

	admission "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
)

// Webhooks keeps the caBundle of webhook configurations, by which the API server verifies the control plane, and the path of those that
// validate, by which the control plane knows the API server.
type Webhooks struct {
	// Client is clientset.AdmissionregistrationV1().
	Client typed.AdmissionregistrationV1Interface
	// Mutating and Validating are the names of the configurations. One that is not there is none.
	Mutating, Validating []string
	// ValidatingPath is where those that validate ask; "" leaves it as it is.
	ValidatingPath string
}

// Distribute puts the bundle into each webhook of the configurations where it is not, and tells how many
// configurations it wrote. Somebody else's change at the same moment is an error that another call mends.
func (w *Webhooks) Distribute(ctx context.Context, bundle []byte) (written int, err error) {
	var failed failures
	for _, name := range distinct(w.Mutating) {
		changed, err := w.mutating(ctx, name, bundle)
		failed.add("MutatingWebhookConfiguration "+name, err)
		written += count(changed)
	}
	for _, name := range distinct(w.Validating) {
		changed, err := w.validating(ctx, name, bundle)
		failed.add("ValidatingWebhookConfiguration "+name, err)
		written += count(changed)
	}
	return written, failed.join()
}

func (w *Webhooks) mutating(ctx context.Context, name string, bundle []byte) (changed bool, err error) {
	client := w.Client.MutatingWebhookConfigurations()
	c, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, ignore(err, apierrors.IsNotFound)
	}
	for i := range c.Webhooks {
		changed = set(&c.Webhooks[i].ClientConfig, bundle) || changed
	}
	if !changed {
		return false, nil
	}
	_, err = client.Update(ctx, c, metav1.UpdateOptions{})
	return err == nil, ignore(err, apierrors.IsNotFound)
}

func (w *Webhooks) validating(ctx context.Context, name string, bundle []byte) (changed bool, err error) {
	client := w.Client.ValidatingWebhookConfigurations()
	c, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, ignore(err, apierrors.IsNotFound)
	}
	for i := range c.Webhooks {
		changed = set(&c.Webhooks[i].ClientConfig, bundle) || changed
		changed = setPath(&c.Webhooks[i].ClientConfig, w.ValidatingPath) || changed
	}
	if !changed {
		return false, nil
	}
	_, err = client.Update(ctx, c, metav1.UpdateOptions{})
	return err == nil, ignore(err, apierrors.IsNotFound)
}

func set(c *admission.WebhookClientConfig, bundle []byte) (changed bool) {
	if bytes.Equal(c.CABundle, bundle) {
		return false
	}
	c.CABundle = bundle
	return true
}

func setPath(c *admission.WebhookClientConfig, path string) (changed bool) {
	switch {
	case path == "":
		return false
	case c.Service != nil:
		changed = c.Service.Path == nil || *c.Service.Path != path
		c.Service.Path = &path
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil {
			return false // the API server takes none such
		}
		changed, u.Path = u.Path != path, path
		*c.URL = u.String()
	}
	return changed
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
