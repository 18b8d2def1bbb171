package check

import (
	"bytes"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

func (s *survey) injectorName() string  { return "sallyport-injector-" + s.System }
func (s *survey) validatorName() string { return "sallyport-validator-" + s.System }

// reinstall mends what an installation brings.
const reinstall = "install the chart again (helm upgrade)"

// injectors judges the webhook that gives pods their proxies.
func (s *survey) injectors() {
	found := false
	for i := range s.Injectors {
		if c := &s.Injectors[i]; c.Name == s.injectorName() {
			found = true
			s.mayBeAway(c)
		}
	}
	if !found {
		s.add(admission.Error, key("MutatingWebhookConfiguration", "", s.injectorName()), "", "", "it is missing: pods are created without a proxy", reinstall)
	}
}

// mayBeAway judges what happens to pods while nobody answers the webhook.
func (s *survey) mayBeAway(c *admissionv1.MutatingWebhookConfiguration) {
	if !strings.HasPrefix(c.Name, "sallyport-injector-") {
		return
	}
	for _, w := range c.Webhooks {
		if w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore {
			s.add(admission.Warning, key("MutatingWebhookConfiguration", "", c.Name), fmt.Sprintf("webhooks[%q].failurePolicy", w.Name), "Ignore",
				"while no controller answers, pods are created without a proxy, and nobody sees it", "set injector.failurePolicy: Fail in the chart's values")
		}
	}
}

// validators judges the webhook that refuses wrong objects.
func (s *survey) validators() {
	for _, c := range s.Validators {
		if c.Name == s.validatorName() {
			return
		}
	}
	s.add(admission.Warning, key("ValidatingWebhookConfiguration", "", s.validatorName()), "", "",
		"it is missing: wrong objects are taken, and only their status says so", reinstall)
}

// callers judges whether the API server trusts whom it asks.
func (s *survey) callers() {
	for _, c := range s.Injectors {
		if c.Name == s.injectorName() {
			for _, w := range c.Webhooks {
				s.caBundle(key("MutatingWebhookConfiguration", "", c.Name), w.Name, w.ClientConfig.CABundle, "labelled pods are not created, or without a proxy")
			}
		}
	}
	for _, c := range s.Validators {
		if c.Name == s.validatorName() {
			for _, w := range c.Webhooks {
				s.caBundle(key("ValidatingWebhookConfiguration", "", c.Name), w.Name, w.ClientConfig.CABundle, "objects of the mesh cannot be written")
			}
		}
	}
}

func (s *survey) caBundle(of config.Key, webhook string, bundle []byte, effect string) {
	trusted := s.Bundles[s.System]
	if trusted == "" || bytes.Equal(bytes.TrimSpace(bundle), bytes.TrimSpace([]byte(trusted))) {
		return
	}
	value := fmt.Sprintf("%d bytes", len(bundle))
	if len(bundle) == 0 {
		value = ""
	}
	s.add(admission.Error, of, fmt.Sprintf("webhooks[%q].clientConfig.caBundle", webhook), value,
		"it is not the mesh's trust bundle (ConfigMap "+s.System+"/"+bundleName+"): the API server does not trust the controller, so that "+effect,
		"the leading controller mends it within a minute; if it does not, see its log")
}
