package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	securityv1alpha1 "istio.io/api/security/v1alpha1"

	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/kubeca"
	"github.com/sallyport/sallyport/xds/identity/kubetoken"
)

// renewal is how often the agents of the test get a new certificate, and reload how often its controllers look at the CA.
const (
	renewal = 150 * time.Millisecond
	reload  = 50 * time.Millisecond
)

// testTraffic: the root is rotated, in its Secret, while two agents with certificates of two replicas of the controller
// connect to each other all the time. No connection fails.
func testTraffic(t *testing.T, c cluster) {
	c.namespace(t, "traffic")
	c.account(t, "traffic", "peer")
	token := c.token(t, "traffic", "peer", kubetoken.Audience, c.pod(t, "traffic", "peer-0", "peer", "10.0.3.1"))
	store := kubeca.NewStore(c.CoreV1(), "traffic")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)

	var agents []*meshAgent
	for range 2 {
		authority, err := ca.OpenContext(ctx, ca.Options{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() error { authority.Watch(ctx, reload); return nil })
		a := &meshAgent{replica: authority, token: token, address: c.serve(t, authority), given: authority.BundlePEM()}
		if err := a.renew(ctx); err != nil {
			t.Fatal(err)
		}
		group.Go(func() error { return a.run(ctx) })
		agents = append(agents, a)
	}
	connections := 0
	group.Go(func() error {
		for i := 0; ctx.Err() == nil; i++ {
			if err := connect(ctx, agents[i%2], agents[(i+1)%2]); err != nil && ctx.Err() == nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			connections++
		}
		return nil
	})
	for _, step := range []ca.Step{ca.StepTrust, ca.StepSign, ca.StepDrop} {
		before := agents[0].replica.BundlePEM()
		if _, err := (ca.Rotation{Store: store}).Advance(ctx, true); err != nil {
			t.Errorf("%s: %v", step, err) // when the agents ended, they say below why
			break
		}
		for _, a := range agents {
			if err := a.follows(ctx, before); err != nil {
				t.Errorf("%s: %v", step, err)
			}
		}
	}
	cancel()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(string(agents[0].given), "BEGIN"); n != 1 {
		t.Errorf("%d roots at the end", n)
	}
	t.Logf("%d connections", connections)
}

// meshAgent has a certificate, as an agent beside Envoy has.
type meshAgent struct {
	replica        *ca.CA // whose certificates it gets
	token, address string

	mutex sync.Mutex
	given []byte // roots
	own   tls.Certificate
	count int
}

func (a *meshAgent) material() (tls.Certificate, *x509.CertPool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.given)
	return a.own, pool
}

// renew connects to the controller anew, as the roots of now allow.
func (a *meshAgent) renew(ctx context.Context) error {
	_, roots := a.material()
	conn, err := grpc.NewClient(a.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	key, csr, err := newRequest()
	if err != nil {
		return err
	}
	answer, err := securityv1alpha1.NewIstioCertificateServiceClient(conn).CreateCertificate(
		metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+a.token), &securityv1alpha1.IstioCertificateRequest{Csr: csr})
	if err != nil {
		return fmt.Errorf("renewal: %w", err)
	}
	chain := answer.GetCertChain()
	block, _ := pem.Decode([]byte(chain[0]))
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.own = tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
	a.given = []byte(chain[len(chain)-1])
	a.count++
	return nil
}

func (a *meshAgent) run(ctx context.Context) error {
	tick := time.NewTicker(renewal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := a.renew(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// follows waits until the agent's replica has taken over a step, and the agent has renewed since: the renewal that was
// under way may be of before.
func (a *meshAgent) follows(ctx context.Context, before []byte) error {
	tick := time.NewTicker(renewal / 4)
	defer tick.Stop()
	counted := func() int { a.mutex.Lock(); defer a.mutex.Unlock(); return a.count }
	until := -1
	for until < 0 || counted() < until {
		select {
		case <-ctx.Done():
			return errors.New("the agents ended")
		case <-tick.C:
		}
		if until < 0 && !bytes.Equal(a.replica.BundlePEM(), before) {
			until = counted() + 2
		}
	}
	return nil
}

// connect makes one mTLS connection between two agents and says a word on it each way.
func connect(ctx context.Context, from, to *meshAgent) error {
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	served := make(chan error, 1)
	go func() {
		own, roots := to.material()
		server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})
		_, err := server.Write([]byte{1})
		served <- err
	}()
	own, roots := from.material()
	client := tls.Client(near, &tls.Config{
		Certificates: []tls.Certificate{own}, InsecureSkipVerify: true, // the chain is verified below; a workload's certificate has no DNS name
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
			return err
		},
	})
	_, err := client.Read(make([]byte, 1))
	if err != nil {
		_ = near.Close()
		return errors.Join(err, <-served)
	}
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	return err
}
