package incluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestRelease tells what the release does for an app, in order.
func TestRelease(t *testing.T) {
	s := set(t)
	app := s.podIP(shop, "app")
	for _, step := range []struct {
		name string
		do   func(s *stage, app string)
	}{
		{"not registered", (*stage).notRegistered},
		{"registered", (*stage).registered},
		{"the pod", (*stage).pod},
		{"inspection", (*stage).inspection},
		{"told", (*stage).told},
		{"removed", (*stage).removed},
		{"other pods", (*stage).otherPods},
		{"policies", (*stage).policies},
		{"egress policies", (*stage).egressPolicies},
		{"cli", (*stage).cli},
		{"guard", (*stage).guard},
		{"upgrade", (*stage).upgrade},
		{"outages", (*stage).outages},
		{"uninstalled", (*stage).uninstalled},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(s.in(t), app) }) {
			return // what comes next builds on it
		}
	}
}

// in is the stage in a subtest.
func (s *stage) in(t *testing.T) *stage {
	sub := *s
	sub.T = t
	return &sub
}

// notRegistered: nothing leaves, and the log says who tried what.
func (s *stage) notRegistered(app string) {
	for _, target := range []string{"http://" + nobody + "/", "https://" + nobody + "/", "http://" + external + "/early"} {
		s.must(blocked(s.Context(), app, target))
	}
	for _, path := range []string{"/", "/early"} {
		if seen := s.outside.Sightings(path); len(seen) > 0 {
			s.Fatalf("the outside saw %v", seen)
		}
	}
}

// registered: one object, and the app reaches the host through the gateway; both protocols.
func (s *stage) registered(app string) {
	applied := time.Now()
	s.apply(entry(shop, "external", external))
	took := time.Since(applied)
	s.becomes("the host is reached", time.Minute, func() error { return reaches(s.Context(), app, "http://"+external+"/plain") })
	s.Logf("from kubectl apply to the first answer: %s (apply itself %s)", since(applied), took.Round(10*time.Millisecond))
	s.becomes("it is by TLS", time.Minute, func() error { return reaches(s.Context(), app, "https://"+external+"/tls") }) // told to the proxy beside the other
	gateways := map[string]bool{}
	for _, ip := range strings.Fields(s.kubectl("get", "pods", "-n", system, "-l", "istio=egressgateway", "-o", "jsonpath={.items[*].status.podIP}")) {
		gateways[ip] = true
	}
	for _, path := range []string{"/plain", "/tls"} {
		seen := s.outside.Sightings(path)
		if len(seen) == 0 {
			s.Fatalf("the outside did not see %s", path)
		}
		for _, v := range seen {
			if !gateways[v.Peer.Addr().String()] || v.Scheme != "https" {
				s.Errorf("the outside saw %s, want https from one of %v", v, gateways)
			}
		}
	}
	s.becomes("the status is written", time.Minute, func() error {
		status, err := s.ask("get", "serviceentry", "-n", shop, "external", "-o", "jsonpath={.status}")
		if err != nil {
			return err
		}
		for _, want := range []string{"egress.sallyport.io/Accepted", system + "/istio-egressgateway", "240.240."} {
			if !strings.Contains(status, want) {
				return fmt.Errorf("the status lacks %q: %s", want, status)
			}
		}
		return nil
	})
}

// pod: the injected pod's ports and users are those that Istio's users know.
func (s *stage) pod(app string) {
	for url, want := range map[string]string{
		"http://" + app + ":15021/healthz/ready": "", "http://" + app + ":15020/metrics": "sallyport_", "http://" + app + ":15090/stats/prometheus": "envoy_",
	} {
		body, err := get(s.Context(), url)
		if err != nil || !strings.Contains(body, want) {
			s.Errorf("%s: %v, want %q in %.80s", url, err, want, body)
		}
	}
	if _, err := get(s.Context(), "http://"+app+":15000/"); err == nil {
		s.Error("Envoy's administration is reached from outside the pod")
	}
	spec := s.kubectl("get", "pods", "-n", shop, "-l", "app=app", "-o", "json")
	var list struct {
		Items []struct {
			Spec struct {
				InitContainers, Containers []container
			}
		}
	}
	s.must(json.Unmarshal([]byte(spec), &list))
	pod := list.Items[0].Spec
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		switch c.Name {
		case "istio-proxy":
			if c.SecurityContext.RunAsUser != 1337 || !c.SecurityContext.ReadOnlyRootFilesystem || len(c.SecurityContext.Capabilities.Add) > 0 {
				s.Errorf("istio-proxy runs with %+v", c.SecurityContext)
			}
		case "istio-init":
			if strings.Join(c.SecurityContext.Capabilities.Add, " ") != "NET_ADMIN NET_RAW" {
				s.Errorf("istio-init has %v", c.SecurityContext.Capabilities.Add)
			}
		}
	}
}

type container struct {
	Name            string
	SecurityContext struct {
		RunAsUser              int64
		ReadOnlyRootFilesystem bool
		Capabilities           struct{ Add []string }
	}
}

// inspection: Envoy's own description shows the names that tools know.
func (s *stage) inspection(string) {
	dump := s.kubectl("exec", "-n", shop, "deployment/app", "-c", "istio-proxy", "--", "sallyport-agent", "request", "GET", "config_dump?include_eds")
	for _, name := range []string{
		"sidecar~", "~shop.svc.cluster.local", `"0.0.0.0_443"`, `"virtualOutbound"`, `"virtualInbound"`, `"BlackHoleCluster"`, `"PassthroughCluster"`,
		`"outbound|443||istio-egressgateway.istio-system.svc.cluster.local"`, `"InboundPassthroughCluster"`, "dynamic_active_clusters", "dynamic_listeners",
		"dynamic_route_configs", "dynamic_active_secrets",
	} {
		if !strings.Contains(dump, name) {
			s.Errorf("the config dump has no %s", name)
		}
	}
}

// told: the audit log holds what was tried, with the workload's identity and the deciding object.
func (s *stage) told(string) {
	type want struct {
		host    string
		verdict record.Verdict
		path    string
		by      string
	}
	wants := []want{
		{external, record.Allowed, record.PathGateway, "ServiceEntry"},
		{nobody, record.Denied, record.PathBlackhole, "MeshConfig"},
	}
	s.becomes("the log has it all", time.Minute, func() error {
		all, err := s.records("--since", "1h")
		if err != nil {
			return err
		}
		var missing []error
		for _, w := range wants {
			found := false
			for _, r := range all {
				found = found || r.Host == w.host && r.Verdict == w.verdict && r.Path == w.path && r.DecidedBy.Kind == w.by &&
					r.Workload.Principal == "spiffe://cluster.local/ns/shop/sa/app"
			}
			if !found {
				missing = append(missing, fmt.Errorf("no record like %+v among %d", w, len(all)))
			}
		}
		return errors.Join(missing...)
	})
}

// audit asks the audit server in its pod.
func (s *stage) audit(args ...string) (string, error) {
	return s.ask(append([]string{"exec", "-n", system, "sallyport-audit-0", "--", "sallyport", "audit", args[0], "--data", "/var/lib/sallyport"}, args[1:]...)...)
}

// records are those that the audit log finds.
func (s *stage) records(filter ...string) (all []record.Record, err error) {
	text, err := s.audit(append([]string{"query", "-o", "json"}, filter...)...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &all)
	}
	return all, err
}

// removed: without the object, nothing leaves again.
func (s *stage) removed(app string) {
	began := time.Now()
	s.kubectl("delete", "serviceentry", "-n", shop, "external")
	s.becomes("the host is closed", time.Minute, func() error { return blocked(s.Context(), app, "http://"+external+"/late") })
	s.Logf("from kubectl delete to closed: %s", since(began))
	s.becomes("TLS to the host is closed", time.Minute, func() error { return blocked(s.Context(), app, "https://"+external+"/late") })
}
