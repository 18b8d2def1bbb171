package incluster

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// otherPods: a proxy as an ordinary container does the same as a native sidecar; a pod that holds its app back has the proxy from
// the first moment; one without a proxy is not of the mesh; and a pod that asks for what cannot be is refused in words.
func (s *stage) otherPods(string) {
	s.apply(entry(shop, "external", external))
	for name, annotation := range map[string]string{
		"classic": `sidecar.istio.io/nativeSidecar: "false"`,
		"held":    `sidecar.istio.io/nativeSidecar: "false", proxy.istio.io/config: "holdApplicationUntilProxyStarts: true"`,
	} {
		s.startApp(shop, name, appSpec{annotations: annotation})
		ip := s.podIP(shop, name)
		s.becomes(name+": the host is reached", time.Minute, func() error { return reaches(s.Context(), ip, "https://"+external+"/"+name) })
		s.must(blocked(s.Context(), ip, "https://"+nobody+"/"+name))
	}
	if kind := s.kubectl("get", "pods", "-n", shop, "-l", "app=app", "-o", `jsonpath={.items[0].spec.initContainers[?(@.name=="istio-proxy")].restartPolicy}`); kind != "Always" {
		s.Errorf("the native sidecar's restartPolicy is %q", kind)
	}
	s.startApp(plain, "app")
	if names := s.kubectl("get", "pods", "-n", plain, "-o", "jsonpath={.items[*].spec.containers[*].name}"); names != "app" {
		s.Errorf("a namespace that did not ask for proxies has pods with %s", names)
	}
	s.loops()
	_, err := s.run(s.Context(), s.Kubectl, "run", "wrong", "-n", shop, "--image=none", "--annotations=traffic.sidecar.istio.io/excludeOutboundPorts=http")
	if err == nil || !strings.Contains(err.Error(), "excludeOutboundPorts") {
		s.Errorf("a pod with an impossible annotation: %v", err)
	}
	_, err = s.run(s.Context(), s.Kubectl, "create", "-n", shop, "--dry-run=server", "-f", "testdata/wrong-entry.yaml")
	if err == nil || !strings.Contains(err.Error(), "spec.ports[0].protocol") {
		s.Errorf("an entry that cannot be: %v", err)
	}
	s.kubectl("delete", "deployment", "-n", shop, "classic", "held")
	s.kubectl("delete", "serviceentry", "-n", shop, "external")
}

// loops: a connection to one of the proxy's own ports, from inside or outside, is closed and not passed on to itself.
func (s *stage) loops() {
	s.Helper()
	app := s.podIP(shop, "app")
	for _, port := range []string{"15001", "15006"} {
		body, err := get(s.Context(), "http://"+app+":8080/tcp?timeout=20s&send=x&addr=127.0.0.1:"+port)
		if err != nil || strings.Contains(body, "timeout") || strings.Contains(body, `"received"`) {
			s.Errorf("to 127.0.0.1:%s from inside: %s (%v)", port, body, err)
		}
		c, err := net.DialTimeout("tcp", app+":"+port, 20*time.Second)
		if err != nil {
			continue // refused is as well
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = c.Write([]byte("x\n"))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			s.Errorf("to port %s from outside: it stays open", port)
		}
		_ = c.Close()
	}
	stats := s.kubectl("exec", "-n", shop, "deployment/app", "-c", "istio-proxy", "--", "sallyport-agent", "request", "GET", "stats?filter=InboundPassthroughCluster.upstream_cx_total")
	if connections := sumOf(stats); connections > 1000 {
		s.Errorf("the proxy connected to the app %d times: something went round", connections)
	}
}

// sumOf adds what Envoy's counters say, one a line.
func sumOf(stats string) int {
	sum := 0
	for line := range strings.Lines(stats) {
		if _, value, ok := strings.Cut(line, ": "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			sum += n
		}
	}
	return sum
}
