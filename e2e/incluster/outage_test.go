package incluster

import (
	"fmt"
	"strings"
	"time"
)

// outages: whatever is away, traffic goes on and what was blocked stays blocked; when it is back, changes take effect.
func (s *stage) outages(app string) {
	tr := s.begin(app)

	s.Log("the API server hangs")
	s.node("pkill", "-STOP", "kube-apiserver")
	s.rest(15 * time.Second)
	if out, err := s.run(s.Context(), s.Kubectl, "get", "namespaces", "--request-timeout=1s"); err == nil {
		s.Errorf("the API server answers while it should hang: %s", out)
	}
	s.node("pkill", "-CONT", "kube-apiserver")
	s.converges(app, "after the API server hung")

	s.Log("etcd is killed")
	s.node("pkill", "-KILL", "etcd")
	s.converges(app, "after etcd was killed")

	s.Log("the controller that leads is killed")
	leader := strings.TrimSpace(s.kubectl("get", "lease", "-n", system, "sallyport-leader", "-o", "jsonpath={.spec.holderIdentity}"))
	s.kubectl("delete", "pod", "-n", system, leader, "--force", "--grace-period=0")
	s.converges(app, "after the leader was killed")

	s.Log("all controllers are away")
	s.kubectl("scale", "-n", system, "deployment/sallyport", "--replicas=0")
	s.kubectl("wait", "-n", system, "--for=delete", "pod", "-l", "app=sallyport", "--timeout=3m")
	s.rest(5 * time.Second)
	s.end(tr)

	s.Log("and the pod's agent is killed with its Envoy: they start from what they have")
	started := func() (string, error) { // how often the native sidecar was
		return s.ask("get", "pods", "-n", shop, "-l", "app=app", "-o", `jsonpath={.items[0].status.initContainerStatuses[?(@.name=="istio-proxy")].restartCount}`)
	}
	before, err := started()
	if err != nil || before == "" {
		s.Fatalf("how often the proxy was started is %q (%v)", before, err)
	}
	s.node("pkill", "-KILL", "-f", "sallyport-agent proxy sidecar")
	s.becomes("the proxy's container is started again", 2*time.Minute, func() error {
		now, err := started()
		if err == nil && (now == "" || now == before) {
			err = fmt.Errorf("it was started %q times, before that %q", now, before)
		}
		return err
	})
	s.becomes("the app reaches the host again", 2*time.Minute, func() error { return reaches(s.Context(), app, "http://"+external+"/alone") })
	s.must(blocked(s.Context(), app, "http://"+nobody+"/alone"))
	s.kubectl("scale", "-n", system, "deployment/sallyport", "--replicas=2")
	s.kubectl("rollout", "status", "-n", system, "deployment/sallyport", "--timeout=2m")
	s.converges(app, "after all of that")
}

// node runs a command on the node.
func (s *stage) node(argv ...string) {
	s.Helper()
	out, err := s.NodeCommand(s.Context(), argv...).CombinedOutput()
	s.mustf(err, "%s: %s", strings.Join(argv, " "), out)
}

// rest lets what happens go on for a while.
func (s *stage) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.Context().Done():
	}
}

// converges: a host that is registered now can be reached, is so told in its status, and is closed when it is not.
func (s *stage) converges(app, when string) {
	s.Helper()
	began := time.Now()
	s.becomes("an entry is taken "+when, 2*time.Minute, func() error { return s.Apply(s.Context(), []byte(entry(shop, "second", second))) })
	s.becomes("it is reached "+when, 2*time.Minute, func() error { return reaches(s.Context(), app, "http://"+second+"/") })
	s.becomes("its status is written "+when, 2*time.Minute, func() error {
		status, err := s.run(s.Context(), s.Kubectl, "get", "serviceentry", "-n", shop, "second", "-o", "jsonpath={.status}")
		if err == nil && !strings.Contains(status, "egress.sallyport.io/Accepted") {
			err = fmt.Errorf("the status is %q", status)
		}
		return err
	})
	s.Logf("%s: converged after %s", when, since(began))
	s.kubectl("delete", "serviceentry", "-n", shop, "second")
	s.becomes("it is closed "+when, time.Minute, func() error { return blocked(s.Context(), app, "http://"+second+"/") })
}
