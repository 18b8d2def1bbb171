package story

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// insideHost is registered, and its public name leads to a private address.
const (
	insideHost = "inside.test"
	insidePort = 8088
	insideFile = "inside.yaml"
)

const insideEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: inside, namespace: default}
spec:
  hosts: [inside.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 8088, name: http, protocol: HTTP}]
`

// leadsInside: a name at a private address is refused at the gateway and recorded. The mesh's setting opens it to
// gateways that run, and closes it again.
func leadsInside(ctx context.Context, s *Scene) (err error) {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	end, err := s.serveInside()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Controller.setDNS(""), s.Config.Remove(insideFile), end()) }()
	s.Outside.Set(insideHost, ttl, world.RouterAddr)
	if err := s.Config.Write(insideFile, insideEntry); err != nil {
		return err
	}
	r, err := s.refusedInside(ctx)
	if err != nil {
		return err
	}
	s.show("%s, %s", line(r), r.Destination)
	began := time.Now()
	if err := s.Controller.setDNS("{allowPrivate: [" + insideHost + "]}"); err != nil {
		return err
	}
	if err := s.insideBecomes(ctx, true); err != nil {
		return err
	}
	s.show("sallyport.dns.allowPrivate names it: reachable after %s", time.Since(began).Round(10*time.Millisecond))
	began = time.Now()
	if err := s.Controller.setDNS(""); err != nil {
		return err
	}
	if err := s.insideBecomes(ctx, false); err != nil {
		return err
	}
	s.show("the setting taken back: closed after %s", time.Since(began).Round(10*time.Millisecond))
	return nil
}

// serveInside is a web server at a private address that the gateway could connect to.
func (s *Scene) serveInside() (end func() error, err error) {
	l, err := s.World.Router.Listen(net.JoinHostPort(world.RouterAddr.String(), fmt.Sprint(insidePort)))
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s says hello\n", r.Host)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return func() error {
		err := server.Close()
		<-ended
		return err
	}, nil
}

// refusedInside waits until the gateway has taken the entry and refused its address.
func (s *Scene) refusedInside(ctx context.Context) (r record.Record, err error) {
	if err := s.insideBecomes(ctx, false); err != nil {
		return r, err
	}
	err = world.Within(ctx, auditWithin, func() error {
		if reply, err := s.askInside(ctx); err != nil || reply.OK() {
			return fmt.Errorf("want a refusal, got %s (%w)", reply, err)
		}
		records, err := s.auditRecords(ctx, "--host", insideHost)
		if err != nil {
			return err
		}
		for _, r = range records {
			if r.Class == record.DNS && r.Verdict == record.Denied && r.Reporter == record.ReporterGateway &&
				r.Destination == world.RouterAddr.String() && strings.Contains(r.Reason, "allowPrivate") {
				return nil
			}
		}
		return fmt.Errorf("the log has no refused answer for %s; it has %s", insideHost, summary(records))
	})
	return r, err
}

func (s *Scene) askInside(ctx context.Context) (Reply, error) {
	return s.get(ctx, fmt.Sprintf("http://%s:%d/%s", insideHost, insidePort, token()))
}

// insideWithin is what a change may take: Envoy asks again once the TTL of what was taken away has passed, as followWithin says.
const insideWithin = followWithin

func (s *Scene) insideBecomes(ctx context.Context, open bool) error {
	return world.Within(ctx, insideWithin, func() error {
		reply, err := s.askInside(ctx)
		if err == nil && reply.OK() != open {
			err = fmt.Errorf("%s should be open: %v, but %s", insideHost, open, reply)
		}
		return err
	})
}
