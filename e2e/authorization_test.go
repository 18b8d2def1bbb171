package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const atGateway = "  selector: {matchLabels: {istio: egressgateway}}\n"

// authorize writes an AuthorizationPolicy of the root namespace, with that spec and annotation; "" takes it away.
func (p *policed) authorize(t *testing.T, annotations, spec string) {
	t.Helper()
	text := ""
	if spec != "" {
		text = "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: way, namespace: istio-system, annotations: {" + annotations + "}}\nspec:\n" + spec
	}
	if err := p.scene.Config.Write("authorization.yaml", text); err != nil {
		t.Fatal(err)
	}
}

// untilSchemes waits until a host is open for these schemes, and no others.
func (p *policed) untilSchemes(t *testing.T, host string, open map[string]bool) {
	t.Helper()
	if err := world.Within(p.ctx, time.Minute, func() error {
		for scheme, err := range p.tries(host) {
			if (err == nil) != open[scheme] {
				return fmt.Errorf("%s://%s is open: %t, want %t (%w)", scheme, host, err == nil, open[scheme], err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// authorization holds that AuthorizationPolicies are kept at the gateway that they select, by the client's certificate, for requests and
// for bytes, live; and that what others write counts for nothing there.
func (p *policed) authorization(t *testing.T) {
	open := map[string]bool{"one.policed.test": true, "two.policed.test": true, "straight.policed.test": true}
	p.write(t, "  default: Allow\n")
	p.authorize(t, "", atGateway+"  rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/somebody]}}]}]\n")
	p.until(t, map[string]bool{"one.policed.test": false, "two.policed.test": false, "straight.policed.test": true})
	p.recorded(t, "what is denied", "two.policed.test", func(r record.Record) bool {
		return r.Verdict == record.Denied && r.DecidedBy.Kind == "AuthorizationPolicy" && r.DecidedBy.Name == "way" && r.DecidedBy.Rule == "default" && r.DecidedBy.Revision != ""
	})
	p.authorize(t, "", atGateway+"  rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/app]}}]}]\n")
	p.until(t, open)

	p.authorize(t, "", atGateway+"  action: DENY\n  rules: [{to: [{operation: {hosts: [one.policed.test], ports: ['9581'], paths: ['/admin*', /]}}]}]\n")
	p.untilSchemes(t, "one.policed.test", map[string]bool{"tls": true, "tcp": true})
	for path, want := range map[string]int{"/public": 200, "/x?/admin": 200, "/admin": 403, "/admin/x?y": 403, "//admin": 403, "/x/../admin": 403, "/%61dmin": 403} {
		turns(t, func() error {
			status, text, err := p.app.get(p.ctx, time.Minute, "one.policed.test", policedHTTP, path, http.Header{})
			if err == nil && status != want {
				err = fmt.Errorf("%s: %d %s, want %d", path, status, text, want)
			}
			return err
		})
	}

	p.authorize(t, "", atGateway+"  action: DENY\n  rules: [{when: [{key: connection.sni, values: ['one.*']}]}, {to: [{operation: {ports: ['9583']}}]}]\n")
	p.untilSchemes(t, "one.policed.test", map[string]bool{"http": true})
	p.untilSchemes(t, "two.policed.test", map[string]bool{"http": true, "tls": true})

	p.authorize(t, "istio.io/dry-run: \"true\"", atGateway+"  rules: [{from: [{source: {namespaces: [nobodys]}}]}]\n")
	p.until(t, open)
	for _, scheme := range []string{"http", "tcp"} {
		p.recorded(t, "what a dry run would deny", "two.policed.test", func(r record.Record) bool {
			return r.Protocol == scheme && r.Verdict == record.Allowed && r.WouldDeny.Kind == "AuthorizationPolicy" && r.WouldDeny.Rule == "default"
		})
	}

	if err := p.scene.Config.Write("neighbour.yaml", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: way, namespace: default}\nspec:\n"+atGateway); err != nil {
		t.Fatal(err)
	}
	p.authorize(t, "", atGateway+"  rules: [{to: [{operation: {hosts: [one.policed.test]}}]}]\n") // comes with it, or later
	p.untilSchemes(t, "two.policed.test", nil)
	p.untilSchemes(t, "one.policed.test", map[string]bool{"http": true})
	p.authorize(t, "", "")
	p.until(t, open)
}
