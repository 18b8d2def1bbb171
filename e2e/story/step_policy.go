package story

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

const policyFile = "policy.yaml"

// The policy's rule, and what it says to whom it denies.
const (
	policyRule   = "leaks"
	policyReason = "Data left by it"
)

// egressPolicy is that of the application's namespace.
const egressPolicy = `apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: app, namespace: %s}
spec:
  default: Allow
  rules:
  - {name: ` + policyRule + `, hosts: [` + externalHost + `], action: Deny, reason: ` + policyReason + `, owner: security@example.com}
`

// deniedByPolicy: a policy closes a host that is registered, says why to whom it denies, and is in the record; without it the
// host is open again.
func deniedByPolicy(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if _, err := s.becomes(ctx, externalHost, true); err != nil {
		return err
	}
	if err := s.Config.Write(policyFile, fmt.Sprintf(egressPolicy, s.appNamespace())); err != nil {
		return err
	}
	err := s.policyDenies(ctx)
	if err := errors.Join(err, s.Config.Remove(policyFile)); err != nil {
		return err
	}
	took, err := s.becomes(ctx, externalHost, true)
	if err != nil {
		return err
	}
	s.show("EgressPolicy removed: reachable after %s", took.Round(10*time.Millisecond))
	return nil
}

// policyDenies is what holds while the policy is there.
func (s *Scene) policyDenies(ctx context.Context) error {
	took, err := s.becomes(ctx, externalHost, false)
	if err != nil {
		return err
	}
	s.show("EgressPolicy %s/app denies %s: closed after %s", s.appNamespace(), externalHost, took.Round(10*time.Millisecond))
	path := "/" + token()
	reply, err := s.get(ctx, s.url("http", externalHost, path))
	if err != nil {
		return err
	}
	if reply.Status != http.StatusForbidden || !strings.Contains(reply.Body, policyRule) || !strings.Contains(reply.Body, policyReason) {
		return fmt.Errorf("want 403 with the rule and its reason, got %s %s", reply, excerpt(reply.Body))
	}
	if seen := s.Outside.Sightings(path); len(seen) > 0 {
		return fmt.Errorf("the outside saw the request: %v", seen)
	}
	s.show("app: curl %s → 403: %s", s.url("http", externalHost, "/"), strings.TrimSpace(reply.Body))
	for _, w := range []want{
		{what: "the denied request", host: externalHost, urlPath: path, status: http.StatusForbidden},
		{what: "the denied https connection", host: externalHost, protocol: "tls"},
	} {
		w.verdict, w.path, w.reporter, w.rule = record.Denied, record.PathGateway, record.ReporterGateway, policyRule
		if !s.Namespaced() {
			w.protocol = "" // a forward proxy reads the CONNECT, which is HTTP
		}
		r, err := s.audited(ctx, s.expect(w))
		if err != nil {
			return err
		}
		s.show("%s: %s %s/%s, rule %s", line(r), r.DecidedBy.Kind, r.DecidedBy.Namespace, r.DecidedBy.Name, r.DecidedBy.Rule)
	}
	return nil
}

// appNamespace is the application's; on loopback everybody is of the default one.
func (s *Scene) appNamespace() string { return cmp.Or(s.app.ns, "default") }
