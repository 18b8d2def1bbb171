package translate_test

import "testing"

// TestGatewaysOnUseAgree is TestDecideAgreesWithProxies, and what is held of policies and AuthorizationPolicies, with gateways that begin without rows and are given what they ask their agents for: what
// policy decides is what happens the first time, and later, and each request and connection has one record.
func TestGatewaysOnUseAgree(t *testing.T) {
	d := newDecoder()
	d.onUse = true
	for seed := *firstWorld; seed < *firstWorld+max(*worlds/2, 2); seed++ {
		holdAgreement(t, d, seed, disagree)
		holdPolicies(t, d, seed)
		holdAuthorization(t, d, seed)
	}
	if d.fetched < d.came/2 || d.came == 0 {
		t.Errorf("of %d requests and connections at gateways %d had their rows fetched", d.came, d.fetched)
	}
	t.Logf("of %d requests and connections at gateways %d had their rows fetched", d.came, d.fetched)
}
