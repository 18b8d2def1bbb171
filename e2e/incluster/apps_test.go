package incluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/cluster"
	"github.com/sallyport/sallyport/e2e/cluster/images"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestApps comes before anything about egress: pods that are taken in go on working, whatever is to happen with the
// world outside.
func TestApps(t *testing.T) {
	s := set(t, "meshConfig.sallyport.mutualTLS=true", "meshConfig.sallyport.ingress.http3=true", "ingressGateway.enabled=true", "credentials.namespaces={"+system+"}")
	text, err := os.ReadFile("testdata/apps.yaml")
	s.must(err)
	began := time.Now()
	s.apply(strings.ReplaceAll(string(text), "$IMAGE", images.Ref(images.App)))
	for _, what := range []string{
		"shop/deployment/web", "shop/deployment/client", "shop/deployment/client-classic", "shop/statefulset/db", "shop/deployment/probes",
		"shop/deployment/node-app", "shop/daemonset/each-node", "plain/deployment/bare",
	} {
		ns, name, _ := strings.Cut(what, "/")
		s.kubectl("rollout", "status", "-n", ns, name, "--timeout=2m")
	}
	s.Logf("all apps are ready after %s", since(began))
	s.kubectl("create", "job", "-n", shop, "--from=cronjob/yearly", "this-year")
	s.speak(true)
	for _, mode := range []string{"REGISTRY_ONLY", "ALLOW_ANY"} {
		t.Run(mode, func(t *testing.T) {
			s := s.in(t)
			s.setPolicy(mode)
			s.table()
		})
	}
	t.Run("from outside", func(t *testing.T) { s.in(t).fromOutside() })
	t.Run("without mutual TLS", func(t *testing.T) {
		s := s.in(t)
		s.setMesh("mutualTLS: true", "mutualTLS: false")
		s.speak(false)
		s.table()
	})
	t.Run("jobs end", func(t *testing.T) {
		s := s.in(t)
		for _, job := range []string{"once", "this-year"} {
			s.kubectl("wait", "-n", shop, "job/"+job, "--for=condition=complete", "--timeout=3m")
		}
	})
	t.Run("nothing goes round", func(t *testing.T) {
		s := s.in(t)
		for _, app := range []string{"web", "client", "db"} {
			if n := s.inboundConnections(app); n > 10_000 { // what goes round makes thousands a second
				s.Errorf("the proxy of %s connected to its app %d times", app, n)
			}
		}
	})
	t.Run("probes", func(t *testing.T) {
		s := s.in(t)
		if n := s.kubectl("get", "pods", "-n", shop, "-o", `jsonpath={range .items[*].status.containerStatuses[?(@.restartCount>0)]}{.name} {end}`); strings.TrimSpace(n) != "" {
			s.Errorf("containers were started again: %s", n)
		}
	})
}

// setPolicy says what the mesh does with hosts that nobody registered, and waits until the client's proxy does it.
func (s *stage) setPolicy(mode string) {
	s.Helper()
	for _, other := range []string{"REGISTRY_ONLY", "ALLOW_ANY"} {
		if other != mode {
			s.setMesh(other, mode)
		}
	}
	check := reaches
	if mode == "REGISTRY_ONLY" {
		check = blocked
	}
	ip := s.podIP(shop, "app") // it has the outside's roots
	s.becomes(mode, time.Minute, func() error { return check(s.Context(), ip, "http://"+nobody+"/policy") })
}

// setMesh writes a text of the mesh's settings anew, everywhere. What is written anew already stays.
func (s *stage) setMesh(from, to string) {
	s.Helper()
	text := s.kubectl("get", "configmap", "-n", system, "istio", "-o", "jsonpath={.data.mesh}")
	text = strings.ReplaceAll(text, from, to)
	if !strings.Contains(text, to) {
		s.Fatalf("the mesh's settings do not say %q: %s", from, text)
	}
	s.kubectl("patch", "configmap", "-n", system, "istio", "--type=merge", "-p", fmt.Sprintf(`{"data":{"mesh":%q}}`, text))
}

// speak waits until all pods with proxies speak mutual TLS to each other, or none does, as the apps' requests say.
func (s *stage) speak(mutual bool) {
	s.Helper()
	for _, from := range []string{"client", "client-classic", "web"} {
		for _, host := range []string{"web.shop", "web-headless.shop", "db-0.db.shop", "db-1.db.shop"} {
			if from == "web" && host == "web-headless.shop" {
				continue // a pod that connects to its own address passes no proxy
			}
			ip := s.podIP(shop, from)
			s.becomes(fmt.Sprintf("mutual TLS from %s to %s: %t", from, host, mutual), 90*time.Second, func() error {
				body, err := get(s.Context(), "http://"+ip+":8080/fetch?url="+url.QueryEscape("http://"+host+":8080/"))
				if err == nil && strings.Contains(body, "X-Forwarded-Client-Cert") != mutual {
					err = fmt.Errorf("the request that came is not so: %s", shortened(body))
				}
				return err
			})
		}
	}
}

// row is one thing that must work: a pod makes a call, and the answer holds what is wanted.
type row struct {
	name string
	from string // an app
	call string // of package app
	want string // part of what came back
}

// table tries all rows, several at a time.
func (s *stage) table() {
	s.Helper()
	ips := map[string]string{}
	for app, ns := range map[string]string{"client": shop, "client-classic": shop, "web": shop, "bare": plain, "node-app": shop, "each-node": shop} {
		ips[app] = s.podIP(ns, app)
	}
	for _, pod := range []string{"db-0", "db-1"} {
		ips[pod] = s.kubectl("get", "pod", "-n", shop, pod, "-o", "jsonpath={.status.podIP}")
	}
	webIP := s.kubectl("get", "service", "-n", shop, "web", "-o", "jsonpath={.spec.clusterIP}")
	apiIP := s.kubectl("get", "service", "-n", "default", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
	rows := s.rows(ips, webIP, apiIP)
	began := time.Now()
	var done sync.WaitGroup
	next := make(chan row)
	for range 8 {
		done.Go(func() {
			for r := range next {
				if err := s.try(r, ips); err != nil {
					s.Errorf("%s: %v", r.name, err)
				}
			}
		})
	}
	for _, r := range rows {
		next <- r
	}
	close(next)
	done.Wait()
	s.Logf("%d rows took %s", len(rows), since(began))
}

// try makes the call of a row until the answer is as wanted; but that takes one try, unless a proxy was just started.
func (s *stage) try(r row, ips map[string]string) error {
	port := "8080"
	if r.from == "node-app" {
		port = "18080"
	}
	return world.Within(s.Context(), time.Minute, func() error {
		ctx, cancel := context.WithTimeout(s.Context(), 6*time.Second)
		defer cancel()
		body, err := get(ctx, "http://"+ips[r.from]+":"+port+"/"+r.call)
		if err == nil && !strings.Contains(body, r.want) {
			err = errors.New(shortened(body))
		}
		return err
	})
}

// rows is the table.
func (s *stage) rows(ips map[string]string, webIP, apiIP string) []row {
	const fromWeb = `\"name\":\"web-`
	var rows []row
	add := func(name, from, call, want string) { rows = append(rows, row{from + ": " + name, from, call, want}) }
	fetch := func(name, from, target, want string, more ...string) {
		add(name, from, "fetch?timeout=4s&url="+url.QueryEscape(target)+strings.Join(more, ""), want)
	}
	talk := func(name, from, kind, addr, want string) {
		add(name, from, kind+"?timeout=4s&send=hello&addr="+url.QueryEscape(addr), want)
	}
	for _, from := range []string{"client", "client-classic", "bare", "node-app", "web"} { // web calls itself
		for _, host := range []string{"web.shop", "web.shop.svc", "web.shop.svc.cluster.local", webIP, "web-headless.shop.svc.cluster.local", ips["web"]} {
			for _, port := range []string{"80", "8080"} {
				fetch("http "+host+":"+port, from, "http://"+host+":"+port+"/", fromWeb)
			}
			talk("tcp "+host, from, "tcp", host+":9090", ": hello")
			talk("server first "+host, from, "tcp", host+":9091", " greets")
		}
		for _, host := range []string{"web.shop", webIP, ips["web"]} {
			fetch("https "+host, from, "https://"+host+"/", fromWeb, "&insecure=1")
			fetch("http2 over tls "+host, from, "https://"+host+"/", fromWeb, "&insecure=1&http2=1")
			fetch("h2c "+host, from, "http://"+host+":8081/", fromWeb, "&h2c=1")
			talk("grpc "+host, from, "grpc", host+":8081", "SERVING")
			talk("websocket "+host, from, "ws", host+":8080", `"received":"hello"`)
			talk("udp "+host, from, "udp", host+":9092", ": hello")
		}
		for port, what := range map[string]string{"8000": "by name of its port", "8001": "port without a protocol", "8004": "appProtocol"} {
			fetch("second service, "+what, from, "http://web-too.shop:"+port+"/", fromWeb)
		}
		talk("second service, server first without a protocol", from, "tcp", "web-too.shop:8002", " greets")
		fetch("second service, tls without a protocol", from, "https://web-too.shop:8003/", fromWeb, "&insecure=1")
		for _, pod := range []string{"db-0", "db-1"} {
			want := `\"name\":\"` + pod
			fetch("stateful "+pod, from, "http://"+pod+".db.shop.svc.cluster.local:8080/", want)
			fetch("stateful short "+pod, from, "http://"+pod+".db.shop:8080/", want)
			fetch("stateful address "+pod, from, "http://"+ips[pod]+":8080/", want)
			talk("stateful tcp "+pod, from, "tcp", pod+".db.shop.svc.cluster.local:9090", pod+": hello")
		}
		fetch("headless of a stateful set", from, "http://db.shop:8080/", `\"name\":\"db-`)
		fetch("no sidecar", from, "http://bare.plain:8080/", `\"name\":\"bare-`)
		fetch("no sidecar, address", from, "http://"+ips["bare"]+":8080/", `\"name\":\"bare-`)
		talk("no sidecar, tcp", from, "tcp", "bare.plain:9090", ": hello")
		talk("no sidecar, server first", from, "tcp", "bare.plain:9091", " greets")
		talk("no sidecar, udp", from, "udp", "bare.plain:9092", ": hello")
		fetch("host network", from, "http://node-app.shop:8080/", `\"name\":\"node-app`)
		talk("host network, tcp", from, "tcp", "node-app.shop:9090", "node-app: hello")
		fetch("host network, address", from, "http://"+ips["node-app"]+":18080/", `\"name\":\"node-app`)
		fetch("host port", from, "http://"+cluster.NodeAddr.String()+":18180/", `\"name\":\"each-node-`)
		fetch("api server", from, "https://kubernetes.default.svc/version", "gitVersion", "&insecure=1")
		fetch("api server, long", from, "https://kubernetes.default.svc.cluster.local/version", "gitVersion", "&insecure=1")
		fetch("api server, address", from, "https://"+apiIP+"/version", "gitVersion", "&insecure=1")
		fetch("api server, behind its service", from, "https://"+cluster.NodeAddr.String()+":6443/version", "gitVersion", "&insecure=1")
		fetch("as an ingress controller does: a pod's address, a name of the outside", from, "http://"+ips["web"]+":8080/", fromWeb, "&host=www.shop.test")
		fetch("chain", from, "http://web.shop:8080/fetch?timeout=3s&url="+url.QueryEscape("http://db-0.db.shop:8080/"), `db-0`)
		add("names", from, "resolve?name=web.shop.svc.cluster.local", webIP)
		add("short names", from, "resolve?name=web.shop", webIP)
	}
	for _, from := range []string{"client", "client-classic", "web", "node-app"} { // of the namespace
		fetch("short name", from, "http://web:8080/", fromWeb)
		fetch("short name, 80", from, "http://web/", fromWeb)
		talk("short name, tcp", from, "tcp", "web:9090", ": hello")
		fetch("short stateful name", from, "http://db-0.db:8080/", `\"name\":\"db-0`)
		fetch("external name", from, "http://alias:8080/", fromWeb)
		fetch("external name, long", from, "http://alias.shop.svc.cluster.local:8080/", fromWeb)
		talk("external name, tcp", from, "tcp", "alias.shop:9090", ": hello")
		add("short names", from, "resolve?name=web", webIP)
	}
	return rows
}

// inboundConnections is how often the proxies of an app connected to it.
func (s *stage) inboundConnections(app string) int {
	s.Helper()
	sum := 0
	for _, pod := range strings.Fields(s.kubectl("get", "pods", "-n", shop, "-l", "app="+app, "-o", "jsonpath={.items[*].metadata.name}")) {
		stats := s.kubectl("exec", "-n", shop, pod, "-c", "istio-proxy", "--", "sallyport-agent", "request", "GET", "stats?filter=InboundPassthroughCluster.upstream_cx_total")
		sum += sumOf(stats)
	}
	return sum
}
