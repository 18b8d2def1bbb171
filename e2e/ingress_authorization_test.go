package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// authorizationObjects ask about what comes in: the gateway's own namespace and the root namespace by its labels, and a neighbour, who has
// no say.
const authorizationObjects = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: shut, namespace: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: DENY
  rules:
  - to: [{operation: {hosts: [plain.test], paths: ["/shut*"]}}]
  - from: [{source: {remoteIpBlocks: [203.0.113.9/32]}}]
  - from: [{source: {ipBlocks: [%s/32]}}]
    to: [{operation: {ports: ["9000"]}}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: named, namespace: istio-system}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: DENY
  rules:
  - from: [{source: {principals: ["*"]}}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: all, namespace: shop}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: DENY
  rules: [{}]
`

// authorization: AuthorizationPolicies that select the gateway are kept of what comes in, by what the gateway itself knows; another
// namespace's are not, and whoever came before a policy and said what it had to say goes on.
func (in *ingressScene) authorization(t *testing.T) {
	raw, lines := in.greeted(t)
	says := func(line string) error {
		if err := raw.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return err
		}
		_, err := io.WriteString(raw, line)
		got, readErr := lines.ReadString('\n')
		if err = errors.Join(err, readErr); err == nil && got != line {
			err = fmt.Errorf("%q came back", got)
		}
		return err
	}
	if err := says("before\n"); err != nil {
		t.Fatal(err)
	}
	if err := in.scene.Config.Write("authorization.yaml", fmt.Sprintf(authorizationObjects, in.clientAddr(t))); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), time.Minute, func() error { return in.answers(t.Context(), "/shut/down", nil, 403) }); err != nil {
		t.Fatal(err)
	}
	claim := http.Header{"X-Forwarded-For": {"203.0.113.9"}}
	for path, x := range map[string]struct {
		claim  http.Header
		status int
	}{"/open": {nil, 200}, "/claimed": {claim, 200}, "/a/../shut": {nil, 403}, "/%73hut": {nil, 403}} {
		turns(t, func() error { return in.answers(t.Context(), path, x.claim, x.status) })
	}
	if err := world.Within(t.Context(), time.Minute, func() error { return in.closed(t.Context()) }); err != nil { // another port's listener
		t.Error(err)
	}
	if err := says("still there\n"); err != nil {
		t.Errorf("the connection that came before: %v", err)
	}
	for _, want := range []struct{ host, path string }{{"plain.test", "/shut/down"}, {"web.shop.svc.cluster.local", ""}} {
		if err := world.Within(t.Context(), time.Minute, func() error {
			return errors.Join(in.closed(t.Context()), in.recordedDenied(t.Context(), want.host, want.path))
		}); err != nil {
			t.Error(err)
		}
	}
	if err := in.scene.Config.Remove("authorization.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), time.Minute, func() error { return in.answers(t.Context(), "/shut/down", nil, 200) }); err != nil {
		t.Error(err)
	}
}

// answers asks for a path of plain.test.
func (in *ingressScene) answers(ctx context.Context, path string, header http.Header, status int) error {
	return in.answersFor(ctx, "plain.test", path, header, status)
}

func (in *ingressScene) answersFor(ctx context.Context, host, path string, header http.Header, status int) error {
	transport := in.transport(nil)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != status {
		err = fmt.Errorf("%s: %s, want %d", path, resp.Status, status)
	}
	return errors.Join(err, resp.Body.Close())
}

// closed says nil when nothing that a new connection says comes back. One that stays open tells that after a moment, so that who waits asks again.
func (in *ingressScene) closed(ctx context.Context) error {
	c, err := in.client.DialContext(ctx, "tcp", net.JoinHostPort(ingressAddr.String(), "9000"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "let me in\n"); err != nil {
		return nil
	}
	got, err := io.ReadAll(c)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("the connection stays open, after %q", got)
	}
	if len(got) > len("hello\n") {
		return fmt.Errorf("%q came back", got)
	}
	return nil
}

// recordedDenied says nil when the log has that the policy denied it.
func (in *ingressScene) recordedDenied(ctx context.Context, host, path string) error {
	records, err := in.scene.AuditRecords(ctx, "--verdict", "denied")
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Direction == record.Inbound && r.Host == host && r.URLPath == path && r.DecidedBy.Kind == "AuthorizationPolicy" && r.DecidedBy.Name == "shut" {
			return nil
		}
	}
	last := records[max(len(records)-5, 0):]
	return fmt.Errorf("%s%s is not among %d denied records; the last are %+v", host, path, len(records), last)
}
