package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// datagramObjects lead what comes by UDP to the first pod.
const datagramObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: echo, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: istio-ingress, sectionName: udp}]
  rules: [{backendRefs: [{name: echo, port: 7, weight: %d}%s]}]
`

// beforeIdle is less than the minute without a datagram after which a session ends by itself: what is recorded by then ended by something else.
const beforeIdle = 50 * time.Second

// datagrams: what is sent by UDP comes back while a route leads on, and each session is in the log, whatever ends it.
func (in *ingressScene) datagrams(t *testing.T) {
	echoDatagrams(t, in.pod, net.JoinHostPort(web1Addr.String(), "9000"))
	in.leadDatagrams(t, 1)
	for _, size := range []int{1, 1400} {
		if err := world.Within(t.Context(), time.Minute, func() error { _, err := in.sentBack(t, size); return err }); err != nil {
			t.Errorf("a datagram of %d bytes: %v", size, err)
		}
	}
	rested := in.sessions(t)

	edited := in.sessions(t)
	in.leadDatagrams(t, 2)
	in.recorded(t, "the route is edited", edited, beforeIdle)
	in.recorded(t, "a session of before, too", rested, beforeIdle)

	rested = in.sessions(t)
	in.recorded(t, "a minute without a datagram", rested, 4*time.Minute)

	gone := in.sessions(t)
	if err := in.scene.Config.Remove("datagrams.yaml"); err != nil {
		t.Fatal(err)
	}
	in.recorded(t, "the route goes", gone, beforeIdle)
	if err := world.Within(t.Context(), time.Minute, func() error {
		if listeners, err := in.gateway.Admin(t.Context(), "/listeners"); err != nil || strings.Contains(string(listeners), "udp_0.0.0.0_") {
			return fmt.Errorf("the gateway listens for UDP though no route leads on: %s (%w)", listeners, err)
		}
		if _, err := in.sentBack(t, 1); err == nil {
			return errors.New("a datagram comes back though nothing listens")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}

	in.leadDatagrams(t, 1, ", {name: missing, port: 7, weight: 1000000}")
	in.turnedAway(t)

	in.leadDatagrams(t, 3)
	cut := in.sessions(t)
	if err := in.gateway.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	in.recorded(t, "the gateway ends", cut, 2*time.Minute)
}

// echoDatagrams sends back what comes to an address.
func echoDatagrams(t *testing.T, at *world.Host, addr string) {
	t.Helper()
	echo, err := at.ListenPacket(addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for {
			n, from, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() { _ = echo.Close(); <-done })
}

func (in *ingressScene) leadDatagrams(t *testing.T, weight int, beside ...string) {
	t.Helper()
	if err := in.scene.Config.Write("datagrams.yaml", fmt.Sprintf(datagramObjects, weight, strings.Join(beside, ""))); err != nil {
		t.Fatal(err)
	}
}

// sessions begins some, and gives their clients' addresses.
func (in *ingressScene) sessions(t *testing.T) (clients []string) {
	t.Helper()
	for range 5 {
		err := world.Within(t.Context(), time.Minute, func() error {
			client, err := in.sentBack(t, 1)
			if err == nil {
				clients = append(clients, client)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return clients
}

// recorded waits until each client's session is in the log, once.
func (in *ingressScene) recorded(t *testing.T, what string, clients []string, within time.Duration) {
	t.Helper()
	err := world.Within(t.Context(), within, func() error {
		records, err := in.scene.AuditRecords(t.Context(), "--host", "echo.shop.svc.cluster.local")
		if err != nil {
			return err
		}
		times := map[string]int{}
		for _, r := range records {
			if r.Protocol == "udp" && r.Direction == record.Inbound && r.Verdict == record.Allowed && r.DecidedBy.Kind == "UDPRoute" && r.DecidedBy.Name == "echo" && r.Destination == net.JoinHostPort(web1Addr.String(), "9000") {
				times[r.Source]++
			}
		}
		for _, c := range clients {
			if times[c] != 1 {
				err = errors.Join(err, fmt.Errorf("the session of %s is in the log %d times", c, times[c]))
			}
		}
		return err
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// turnedAway waits until a gap counts datagrams that nothing takes.
func (in *ingressScene) turnedAway(t *testing.T) {
	t.Helper()
	err := world.Within(t.Context(), time.Minute, func() error {
		_, sent := in.sentBack(t, 1)
		records, err := in.scene.AuditRecords(t.Context())
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Class == record.Gap && r.Count > 0 && strings.HasPrefix(r.Reason, "datagrams were turned away") {
				return nil
			}
		}
		return fmt.Errorf("no gap among %d records; a datagram: %w", len(records), sent)
	})
	if err != nil {
		t.Error(err)
	}
}

// datagramPorts are those that clients have had. Each has one of its own, above those that the kernel gives: it gives by chance, and one twice would be two sessions of one client.
var datagramPorts atomic.Int32

// sentBack sends a datagram by a socket of its own, whose address it gives, and holds what comes back against it.
func (in *ingressScene) sentBack(t *testing.T, size int) (client string, err error) {
	t.Helper()
	from := &net.UDPAddr{Port: kernelsLast + 1 + int(datagramPorts.Add(1))%(1<<16-kernelsLast-1)}
	var c net.Conn
	if err := in.client.Do(func() (err error) {
		c, err = (&net.Dialer{LocalAddr: from}).DialContext(t.Context(), "udp", net.JoinHostPort(ingressAddr.String(), "9000"))
		return err
	}); err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	sent, buf := bytes.Repeat([]byte("x"), size), make([]byte, 1<<16)
	if err := c.SetDeadline(time.Now().Add(tryWithin)); err != nil {
		return "", err
	}
	if _, err := c.Write(sent); err != nil {
		return "", err
	}
	n, err := c.Read(buf)
	if err == nil && !bytes.Equal(buf[:n], sent) {
		err = fmt.Errorf("%d bytes came back", n)
	}
	return c.LocalAddr().String(), err
}
