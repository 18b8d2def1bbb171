package incluster

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// cli: the operator's binary asks the cluster from outside.
func (s *stage) cli(string) {
	s.apply(entry(shop, "external", external))
	proxies := s.sallyport("proxies", "-o", "json")
	for _, want := range []string{"sidecar~", ".shop~shop.svc.cluster.local", "router~"} {
		if !strings.Contains(proxies, want) {
			s.Errorf("proxies shows no %s: %s", want, proxies)
		}
	}
	if got := s.sallyport("explain", "--from", "shop/app", "-o", "json", "https://"+external); !strings.Contains(got, `"gateway"`) {
		s.Errorf("explain: %s", got)
	}
	if got := s.sallyport("audit", "query", "--since", "1h", "--host", external, "-o", "json"); !strings.Contains(got, "spiffe://cluster.local/ns/shop/sa/app") {
		s.Errorf("audit query: %s", got)
	}
	pod := s.podName(shop, "app")
	s.becomes("a proxy's configuration has the host", time.Minute, func() error { // it is told of it in its turn
		got, err := s.operator("config", "shop/"+pod)
		if err == nil && (!json.Valid([]byte(got)) || !strings.Contains(got, external)) {
			err = fmt.Errorf("config: %.200s", got)
		}
		return err
	})
	s.sallyport("lint")
	// The test cluster has one node, no NetworkPolicies and no guard: check says so, and that is its answer no.
	program, err := filepath.Abs("../../bin/sallyport")
	s.must(err)
	out, err := s.run(s.Context(), program, "check", "--kubeconfig", s.Kubeconfig, "-o", "json")
	if !strings.Contains(out, "shop") || !json.Valid([]byte(out)) {
		s.Errorf("check: %s (%v)", out, err)
	}
	s.kubectl("delete", "serviceentry", "-n", shop, "external")
}

// sallyport runs the operator's binary against the cluster.
func (s *stage) sallyport(args ...string) string {
	s.Helper()
	out, err := s.operator(args...)
	s.must(err)
	return out
}

// operator is sallyport where it may fail: in what is tried again.
func (s *stage) operator(args ...string) (string, error) {
	program, err := filepath.Abs("../../bin/sallyport")
	if err != nil {
		return "", err
	}
	return s.run(s.Context(), append(append([]string{program}, args...), "--kubeconfig", s.Kubeconfig)...)
}

func (s *stage) podName(ns, app string) string {
	s.Helper()
	return strings.TrimSpace(s.kubectl("get", "pods", "-n", ns, "-l", "app="+app, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[0].metadata.name}"))
}
