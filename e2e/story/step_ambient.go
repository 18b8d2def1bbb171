package story

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// AmbientSteps is the story of pods without sidecars. What must hold for all pods is told by the same steps as that of sidecars.
func AmbientSteps() []Step {
	return []Step{
		{"taken-in", "a pod without a sidecar: nothing of the mesh runs in it, its node does for it", Namespaces, takenIn},
		{"origination", "plain HTTP leaves by the egress gateway as TLS, with the pod's own identity", Namespaces, origination},
		{"mtls", "between pod and gateway there is mTLS and nothing else", Namespaces, onlyMTLS},
		{"passthrough", "HTTPS stays the app's own, end to end", Namespaces, passthrough},
		{"allow-any", "ALLOW_ANY: an unregistered host is reached straight, from the pod's own address", Namespaces, allowAny},
		{"registry-only", "REGISTRY_ONLY: an unregistered host is closed, by DNS too, and its name is in the log", Namespaces, registryOnly},
		{"policy", "a policy denies a registered host to the pod, tells it why, and is in the record", Namespaces, deniedByPolicy},
		{"waypoint", "a waypoint reads requests before a Service: what it denies is 403, and without it the Service is closed", Namespaces, byWaypoint},
		{"controller-killed", "kill -9 of the controller stops no traffic", Namespaces, controllerKilled},
		{"agent-killed", "kill -9 of one of the node's two agents: traffic and DNS go on by the other; without any, the pod is closed", Namespaces, agentKilled},
		{"audit", "the audit log holds all of it", Namespaces, auditHoldsAll},
	}
}

// takenIn: the pod's network has rules and the node's listeners, and none of its processes.
func takenIn(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if err := s.ambient.node.Tell(ctx, "check", "calm/app-1", s.app.host); err != nil {
		return err
	}
	s.show("node: sallyport-node pod check calm/app-1: served")
	out, err := s.app.host.Run(ctx, 0, "ip", "netns", "pids", s.app.host.Namespace())
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(out)) {
		name, err := s.app.host.Run(ctx, 0, "cat", "/proc/"+pid+"/comm")
		if err == nil && (strings.Contains(string(name), "envoy") || strings.Contains(string(name), "sallyport")) {
			return fmt.Errorf("%s (process %s) runs in the pod's network", strings.TrimSpace(string(name)), pid)
		}
	}
	s.show("pod: no process of the mesh in its network")
	listening, err := s.app.host.Run(ctx, 0, "ss", "-Hltn")
	if err != nil {
		return err
	}
	var open []string
	for _, port := range []string{"15001", "15006", "15008", "15053"} {
		if !strings.Contains(string(listening), ":"+port) {
			return fmt.Errorf("nothing listens at port %s in the pod:\n%s", port, listening)
		}
		open = append(open, port)
	}
	s.show("pod: its node's Envoy and DNS listen in it, at %s", strings.Join(open, ", "))
	return nil
}

// asksWeb asks the pod's Service, whose address the cluster's own DNS says, and waits until it answers so.
func (s *Scene) asksWeb(ctx context.Context, status int, more ...string) (reply Reply, err error) {
	more = append(more, "--resolve", webHost+":80:"+webVIP)
	err = world.Within(ctx, time.Minute, func() error {
		reply, err = s.get(ctx, "http://"+webHost+"/", more...)
		if err == nil && (reply.Exit != 0 || reply.Status != status) {
			err = fmt.Errorf("want status %d, got %s %s", status, reply, excerpt(reply.Body))
		}
		return err
	})
	return reply, err
}

// byWaypoint: requests to a Service go by its waypoint, where policies of requests count; without the waypoint they are closed.
func byWaypoint(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	reply, err := s.asksWeb(ctx, http.StatusOK)
	if err != nil {
		return err
	}
	if !strings.Contains(reply.Body, "by "+ambientWaypointAddr.String()+":") {
		return fmt.Errorf("the Service was asked around its waypoint %s: %s", ambientWaypointAddr, reply.Body)
	}
	s.show("app: curl http://%s/ → 200: %s, the waypoint", webHost, reply.Body)
	if reply, err = s.asksWeb(ctx, http.StatusForbidden, "-X", "DELETE"); err != nil {
		return err
	}
	s.show("app: curl -X DELETE http://%s/ → 403", webHost)
	if err := world.Within(ctx, auditWithin, func() error {
		records, err := s.auditRecords(ctx, "--host", webHost)
		if err == nil && !slices.ContainsFunc(records, func(r record.Record) bool {
			return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && r.Claim == ambientPrincipal && r.DecidedBy.Name == "reading"
		}) {
			err = fmt.Errorf("none of %d records has that AuthorizationPolicy calm/reading denied %s", len(records), ambientPrincipal)
		}
		return err
	}); err != nil {
		return err
	}
	s.show("log: denied by AuthorizationPolicy calm/reading, at the waypoint, to %s", ambientPrincipal)
	if err := s.ambient.waypoint.kill(ctx); err != nil {
		return err
	}
	if _, err := s.asksWeb(ctx, http.StatusServiceUnavailable); err != nil {
		return fmt.Errorf("the waypoint is dead: %w", err)
	}
	s.show("waypoint dead: 503, and nothing goes around it")
	if err := s.ambient.waypoint.up(ctx); err != nil {
		return err
	}
	_, err = s.asksWeb(ctx, http.StatusOK)
	return err
}

// newConnections is how many have to succeed, one after the other.
const newConnections = 20

// agentKilled: of a node's two agents, as there are in an upgrade, one is killed, and its Envoy with it. New connections, and names, go on by the other.
// When that one is killed, too, nothing gets out of the pod until an agent is there again.
func agentKilled(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if _, err := s.policy(ctx, "REGISTRY_ONLY"); err != nil {
		return err
	}
	next, err := s.ambient.node.Successor(ctx, "agent-next", ambientNextAddr)
	if err != nil {
		return err
	}
	if err := next.Up(ctx); err != nil {
		return err
	}
	s.show("a second agent beside the first, as in an upgrade: ready")
	first := s.ambient.node
	if s.ambient.node = next; first.Process.Kill() != nil {
		return errors.New("the first agent does not end")
	}
	began := time.Now()
	if err := s.open(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	for i := range newConnections {
		reply, err := s.get(ctx, s.url([]string{"http", "https"}[i%2], externalHost, "/"))
		if err == nil {
			err = reply.must()
		}
		if err != nil {
			return fmt.Errorf("connection %d after the first agent's end: %w", i+1, err)
		}
	}
	s.show("the first one killed: open after %s, then %d new connections, none failed", took.Round(10*time.Millisecond), newConnections)
	if err := s.stillClosed(ctx); err != nil {
		return err
	}
	if err := next.Process.Kill(); err != nil {
		return err
	}
	next.Process = nil
	for _, scheme := range []string{"http", "https"} {
		if err := world.Within(ctx, time.Minute, func() error { // its Envoy ends a moment after it
			reply, err := s.get(ctx, s.url(scheme, externalHost, "/"), "--max-time", "3")
			if err == nil && reply.OK() {
				err = fmt.Errorf("without an agent the pod reaches the outside: %s", reply)
			}
			return err
		}); err != nil {
			return err
		}
	}
	s.show("both killed: nothing gets out of the pod")
	began = time.Now()
	if err := next.Up(ctx); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	s.show("one started again: open after %s", time.Since(began).Round(10*time.Millisecond))
	return nil
}

// open waits until the registered host is.
func (s *Scene) open(ctx context.Context) error {
	_, err := s.becomes(ctx, externalHost, true)
	return err
}
