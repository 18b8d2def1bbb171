package controlplane

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/policy/matrix"
)

// TestExplainSocket: what runs answers in its data folder what it does now, to its own user.
func TestExplainSocket(t *testing.T) {
	l := begin(t, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
	l.feed(entry + "---\n{apiVersion: egress.sallyport.io/v1alpha1, kind: EgressPolicy, metadata: {name: none, namespace: shop}, spec: {serviceAccounts: [none], default: Deny}}\n" + `---
{apiVersion: v1, kind: Service, metadata: {name: sallyport, namespace: istio-system}, spec: {clusterIP: 203.0.113.15, ports: [{name: xds, port: 15012}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: there}, spec: {hosts: [there.test], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{address: 203.0.113.15}], ports: [{number: 15012, name: tls, protocol: TLS}]}}
`)
	socket := filepath.Join(l.data, ExplainSocket)
	l.becomes("the socket is open, and its user's", func() bool {
		st, err := os.Stat(socket)
		return err == nil && st.Mode().Perm() == 0o600
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	ask := func(from, target string) (code int, e policy.Explanation) {
		t.Helper()
		resp, err := client.Get("http://explain/explain?" + url.Values{"from": {from}, "url": {target}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode == http.StatusOK {
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
				t.Fatal(err)
			}
		}
		return resp.StatusCode, e
	}
	if code, e := ask("default/app", "https://a.test"); code != http.StatusOK || e.Verdict != "allow" || e.Path != policy.PathGateway {
		t.Errorf("registered: %d %+v", code, e)
	}
	if code, e := ask("default/app", "https://nobody.test"); code != http.StatusOK || e.Verdict != "deny" {
		t.Errorf("not registered: %d %+v", code, e)
	}
	if code, e := ask("default/app", "tls://there.test:15012"); code != http.StatusOK || e.Verdict != "deny" || !strings.Contains(e.Reason, "is a gateway of the mesh, or its control plane") {
		t.Errorf("what leads to the Service of the control plane: %d %+v", code, e)
	}
	for _, wrong := range [][2]string{{"app", "https://a.test"}, {"default/app", "a.test"}} {
		if code, _ := ask(wrong[0], wrong[1]); code != http.StatusBadRequest {
			t.Errorf("%v: %d", wrong, code)
		}
	}
	var list []matrix.PolicySummary
	var m matrix.Matrix
	for query, into := range map[string]any{"list": &list, "matrix?host=a.test&limit=5": &m} {
		resp, err := client.Get("http://explain/policy/" + query)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", query, resp.StatusCode, err)
		}
		_ = resp.Body.Close()
	}
	if len(list) != 1 || list[0].Name != "none" || len(m.Cells) != 1 || m.Cells[0].Verdict != matrix.Deny || m.Cells[0].Subject.Account != "none" {
		t.Errorf("%+v, %+v", list, m)
	}
}
