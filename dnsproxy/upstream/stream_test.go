package upstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/hostile"
)

// TestPipelining: many questions share a connection, and a slow answer does not hold up the others.
func TestPipelining(t *testing.T) {
	gate := make(chan struct{})
	good := hostile.Answer(truth)
	p := hostile.Start(t, hostile.Config{TCP: func(w *hostile.Writer, req *dns.Msg) {
		if req.Question[0].Name == "slow.test." {
			<-gate
		}
		good(w, req)
	}})
	c := client(t, Config{Servers: []Server{{Addr: p.Addr, Transport: TCP}}})
	slow := make(chan error, 1)
	go func() {
		_, err := c.Exchange(t.Context(), Question{Name: "slow.test.", Type: dns.TypeA, Class: dns.ClassINET})
		slow <- err
	}()
	eventually(t, "the slow one is asked", func() bool { return len(p.Asked("slow.test")) == 1 })
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			r, err := c.Exchange(t.Context(), question)
			right(t, r, err)
		})
	}
	wg.Wait()
	close(gate)
	if err := <-slow; err != nil || p.Connections() != 1 {
		t.Errorf("error %v; %d connections", err, p.Connections())
	}
}

// TestServerClosesConnections: a question that meets a closed connection is asked again at once.
func TestServerClosesConnections(t *testing.T) {
	good := hostile.Answer(truth)
	p := hostile.Start(t, hostile.Config{TCP: func(w *hostile.Writer, req *dns.Msg) { good(w, req); w.Hangup() }})
	c := client(t, Config{Servers: []Server{{Addr: p.Addr, Transport: TCP}}})
	for range 5 {
		r, err := c.Exchange(t.Context(), question)
		right(t, r, err)
	}
}

// certificate makes one for name and the roots that vouch for it.
func certificate(t *testing.T, name string, ip net.IP) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}, roots
}

func TestTLS(t *testing.T) {
	config, roots := certificate(t, "dns.test", net.IPv4(127, 0, 0, 1))
	p := hostile.Start(t, hostile.Config{TCP: hostile.Answer(truth), TLS: config})
	for _, c := range []struct {
		name  string
		roots *x509.CertPool
		works bool
	}{
		{"dns.test", roots, true},
		{"", roots, true}, // by address
		{"other.test", roots, false},
		{"dns.test", nil, false},
	} {
		client := client(t, Config{Servers: []Server{{Addr: p.Addr, Transport: TLS, Name: c.name}}, Roots: c.roots})
		before := p.Connections()
		for range 3 {
			r, err := client.Exchange(t.Context(), question)
			if c.works {
				right(t, r, err)
			} else if err == nil {
				t.Fatalf("name %q: an unverified server was believed", c.name)
			}
		}
		if n := p.Connections() - before; c.works && n != 1 {
			t.Errorf("%d connections for three questions", n)
		}
	}
	for _, a := range p.Asked("") {
		if wire, _ := a.Req.Pack(); len(wire)%128 != 0 {
			t.Errorf("a question of %d bytes is not padded", len(wire))
		}
	}
}

// TestPoolIsBounded: a server that never answers gets no more than the connections and questions there may be.
func TestPoolIsBounded(t *testing.T) {
	const questions = 2 * maxPipes * maxWaiting
	p := hostile.Start(t, hostile.Config{})
	c := client(t, Config{Servers: []Server{{Addr: p.Addr, Transport: TCP}}})
	ctx, cancel := context.WithCancel(t.Context())
	var refused atomic.Int64
	var wg sync.WaitGroup
	for range questions {
		wg.Go(func() {
			if _, err := c.Exchange(ctx, question); !errors.Is(err, context.Canceled) {
				refused.Add(1)
			}
		})
	}
	eventually(t, "each question waits or is refused", func() bool { return int(refused.Load())+len(p.Asked("")) == questions })
	if p.Connections() > maxPipes || refused.Load() == 0 {
		t.Errorf("%d connections, %d refused", p.Connections(), refused.Load())
	}
	cancel()
	wg.Wait()
}

// expiring is a context whose deadline passes when done is closed, not sooner on a loaded machine.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestSlowNamesKeepTheConnection: one name without an answer is not a connection without one.
func TestSlowNamesKeepTheConnection(t *testing.T) {
	good := hostile.Answer(truth)
	p := hostile.Start(t, hostile.Config{TCP: func(w *hostile.Writer, req *dns.Msg) {
		if req.Question[0].Name != "slow.test." {
			good(w, req)
		}
	}})
	c := client(t, Config{Servers: []Server{{Addr: p.Addr, Transport: TCP}}})
	for range 3 {
		slow, before := make(chan error, 1), len(p.Asked("slow.test"))
		over := expiring{t.Context(), make(chan struct{})}
		go func() {
			_, err := c.Exchange(over, Question{Name: "slow.test.", Type: dns.TypeA, Class: dns.ClassINET})
			slow <- err
		}()
		eventually(t, "the slow one is asked", func() bool { return len(p.Asked("slow.test")) > before })
		r, err := c.Exchange(t.Context(), question)
		right(t, r, err)
		close(over.done)
		if <-slow == nil {
			t.Fatal("the slow name has an answer")
		}
	}
	if p.Connections() != 1 {
		t.Errorf("%d connections", p.Connections())
	}
}
