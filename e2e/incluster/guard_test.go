package incluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/cluster"
)

// guard: on its node, a pod of the mesh leaves by the gateway only, whether or not it has a sidecar, and whoever it runs
// as; also while the guard is dead. Others are not touched.
func (s *stage) guard(app string) {
	s.apply(entry(shop, "external", external))
	s.startApp(shop, "bare", appSpec{labels: `sidecar.istio.io/inject: "false"`})
	s.startApp(shop, "cheat", appSpec{security: "runAsUser: 1337"})
	s.startApp(plain, "app")
	bare, cheat, other := s.podIP(shop, "bare"), s.podIP(shop, "cheat"), s.podIP(plain, "app")
	around := map[string]string{"without a sidecar": bare, "as the proxy's user": cheat}
	for who, ip := range around {
		s.becomes("without the guard a pod goes around the mesh "+who, time.Minute, func() error { return reaches(s.Context(), ip, "http://"+external+"/around") })
	}

	s.becomes("the app knows the host", time.Minute, func() error { return reaches(s.Context(), app, "https://"+external+"/known") })
	s.verifyOpen()

	s.helm("upgrade", "sallyport", s.chart, "-n", system, "-f", "testdata/values.yaml", "--reuse-values", "--wait", "--timeout", "2m", "--set", "nodeGuard.enabled=true")
	closed := func(when string) {
		s.Helper()
		for who, ip := range around {
			s.becomes("the way around is closed "+who+", "+when, time.Minute, func() error { return blocked(s.Context(), ip, "http://"+external+"/around") })
			s.must(blocked(s.Context(), ip, "https://"+nobody+"/around"))
		}
		s.must(reaches(s.Context(), app, "https://"+external+"/guarded"))
		s.must(reaches(s.Context(), other, "http://"+external+"/other"))
	}
	s.kubectl("rollout", "status", "-n", system, "daemonset/sallyport-node", "--timeout=3m") // helm waits for all nodes but one
	closed("with the guard")
	s.verifyClosed()

	s.node("pkill", "-KILL", "sallyport-node")
	closed("while the guard is dead")
	s.becomes("the refusals are counted", 3*time.Minute, func() error {
		metrics, err := get(s.Context(), "http://"+cluster.NodeAddr.String()+":15022/metrics")
		if err == nil && !strings.Contains(metrics, `namespace="shop"`) {
			err = fmt.Errorf("the metrics name no pod of shop")
		}
		return err
	})

	// What a guard wrote stays when it ends, unless it is told otherwise; so that is how it is taken off.
	s.helm("upgrade", "sallyport", s.chart, "-n", system, "-f", "testdata/values.yaml", "--reuse-values", "--wait", "--timeout", "2m",
		"--set", "nodeGuard.enabled=true", "--set", "nodeGuard.extraArgs={--on-exit=release}")
	s.kubectl("rollout", "status", "-n", system, "daemonset/sallyport-node", "--timeout=3m")
	s.helm("upgrade", "sallyport", s.chart, "-n", system, "-f", "testdata/values.yaml", "--reuse-values", "--wait", "--timeout", "2m", "--set", "nodeGuard.enabled=false")
	for who, ip := range around {
		s.becomes("the guard is taken off "+who, time.Minute, func() error { return reaches(s.Context(), ip, "http://"+external+"/off") })
	}
	s.kubectl("delete", "deployment", "-n", shop, "bare", "cheat")
}
