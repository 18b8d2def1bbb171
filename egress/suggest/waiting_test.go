package suggest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
)

// TestWaiting: what nobody has a word about waits, and nothing else.
func TestWaiting(t *testing.T) {
	second := flow("shop", "cart", "app=x", "new.test", 443, "tls")
	second.First, second.Days, second.Replicas = now.AddDate(0, 0, -9), []int64{20590}, []string{"cart-2"}
	log := logOf(
		flow("shop", "cart", "", "new.test", 443, "tls"), second, // by labels two flows
		denied(flow("shop", "cart", "", "new.test", 8080, "http", "GET /a", "POST /b")),
		denied(flow("shop", "cart", "", "asked.test", 0, "dns")),
		flow("shop", "cart", "", "registered.test", 443, "tls"),
		denied(flow("bank", "vault", "", "never.test", 443, "tls")),
		denied(flow("bank", "vault", "", "registered.test", 80, "http", "GET /")),
		flow("shop", "cart", "", "x\ny", 443, "tls"),
		denied(flow("shop", "cart", "", "own.test", 8443, "tls")), // its entry has other ports
	)
	var got []string
	for _, w := range suggest.Waiting(configOf(t, false, inForce), log, now) {
		got = append(got, fmt.Sprintf("%s/%s %s:%d %d days %d pods %d records %d denied: %s", w.Namespace, w.Account, w.Host, w.Port, len(w.Days), len(w.Replicas), w.Records, w.Denied, w.Why))
	}
	want := `shop/cart new.test:443 3 days 2 pods 14 records 0 denied: denied: nobody registered it
bank/vault registered.test:80 2 days 1 pods 7 records 7 denied: denied: no rule of EgressPolicy bank/closed allows it
shop/cart asked.test:0 2 days 1 pods 7 records 7 denied: denied: nobody registered it
shop/cart new.test:8080 2 days 1 pods 7 records 7 denied: denied: nobody registered it
shop/cart own.test:8443 2 days 1 pods 7 records 7 denied: denied: nobody registered it`
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestOnly: what is made for one flow is for that alone, and closes nobody who is open.
func TestOnly(t *testing.T) {
	c := configOf(t, true, inForce)
	one := denied(flow("bank", "vault", "", "new.test", 443, "tls"))
	log := logOf(one, flow("shop", "cart", "", "other.test", 443, "tls"), flow("shop", "cart", "", "third.test", 443, "tls"))
	r := suggest.Suggest(c, log, with(func(o *suggest.Options) {
		o.Denied, o.Added, o.Only = true, true, func(f *seen.Flow) bool { return f.Host == "new.test" }
	}))
	text := yamlOf(t, r)
	if strings.Contains(text, "other.test") || !strings.Contains(text, "changed: EgressPolicy bank/closed") || !strings.Contains(text, "hosts: [new.test]") {
		t.Error(text)
	}
	r = suggest.Suggest(c, log, with(func(o *suggest.Options) {
		o.Denied, o.Added, o.Only = true, true, func(f *seen.Flow) bool { return f.Host == "other.test" }
	}))
	if text := yamlOf(t, r); strings.Contains(text, "kind: EgressPolicy") || !strings.Contains(text, "hosts: [other.test]") || strings.Contains(text, "third") {
		t.Error(text)
	}
}
