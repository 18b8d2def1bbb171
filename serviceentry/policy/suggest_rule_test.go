package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestSuggestedRule: written where the suggestion says, the rule lets the request through that it was made for.
func TestSuggestedRule(t *testing.T) {
	const object = `
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: p, namespace: default}
spec:
  rules:
%s  - {name: never, hosts: [exact.test], methods: [GET], action: Deny}
  - {name: bytes, hosts: [exact.test], protocols: [TCP], action: Deny}
  - {name: paths, hosts: ["*.wild.test"], paths: [/a], action: Allow}
%s`
	for url, place := range map[string]string{
		"http://exact.test": "before rule never", "http://exact.test/a?b=c": "before rule never", "tcp://exact.test:5432": "before rule bytes",
		"https://exact.test": "after its other rules", "https://a.wild.test": "after its other rules", "http://nobody.test/x": "after its other rules",
	} {
		w, d := from(""), parse(t, url)
		v := policy.Decide(read(t, true, objects, fmt.Sprintf(object, "", "")), w, d)
		text := policy.Suggestion(w, d, v)
		if v.Allowed || !strings.HasPrefix(text, "# in spec.rules of EgressPolicy default/p, "+place+"\n") {
			t.Errorf("%s: allowed %t, %s", url, v.Allowed, text)
			continue
		}
		rule := "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
		mended := fmt.Sprintf(object, rule, "")
		if strings.HasPrefix(place, "after") {
			mended = fmt.Sprintf(object, "", rule)
		}
		if v := policy.Decide(read(t, true, objects, mended), w, d); !v.Allowed {
			t.Errorf("%s is still denied: %s\n%s", url, v.Reason, mended)
		}
	}
	d := parse(t, "http://a.wild.test//a")
	v := policy.Decide(read(t, true, objects, fmt.Sprintf(object, "", "")), from(""), d)
	if text := policy.Suggestion(from(""), d, v); v.Ruling == nil || !v.Ruling.Path || text != "" {
		t.Errorf("of a path that is not in normal form: %+v: %s", v.Ruling, text)
	}
}
