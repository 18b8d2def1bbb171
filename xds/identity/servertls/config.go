package servertls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

const defaultTTL = 24 * time.Hour

// Signer is the part of the mesh CA that the server needs.
type Signer interface {
	SignServer(public crypto.PublicKey, hosts []string, ttl time.Duration) ([]*x509.Certificate, error)
	Bundle() []*x509.Certificate
}

// Options configure a server's TLS.
type Options struct {
	CA Signer
	// Hosts are the DNS names and IP addresses of the certificate; see Hosts.
	Hosts []string
	// Webhook is for callers that are not of the mesh, as the Kubernetes API server: no client certificate is asked for,
	// and HTTP/1.1 is spoken beside HTTP/2.
	Webhook bool
	// TTL is the certificate's lifetime; 0 is 24 hours.
	TTL time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Hosts returns the names under which agents reach a controller, and the ones given beside them, once each.
func Hosts(more ...string) []string {
	hosts := []string{
		"localhost", "127.0.0.1", "::1",
		"sallyport.istio-system.svc", "istiod.istio-system.svc",
	}
	for _, host := range more {
		if host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// ServiceHosts returns the names under which a Kubernetes Service is reached from its cluster; the API server calls
// webhooks by the first.
func ServiceHosts(name, namespace string) []string {
	return []string{name + "." + namespace + ".svc", name + "." + namespace, name + "." + namespace + ".svc.cluster.local"}
}

// New returns the configuration of a server that its clients verify against the mesh's roots. Unless it is a webhook's, it
// asks for a client certificate and verifies it when one is given (agents have none before their first). The certificate is made anew
// at the first handshake after half of its lifetime, or after the CA's roots changed.
func New(o Options) (*tls.Config, error) {
	if len(o.Hosts) == 0 {
		return nil, errors.New("server TLS: no hosts given")
	}
	for _, host := range o.Hosts {
		if net.ParseIP(host) == nil && !isDNSName(host) {
			return nil, fmt.Errorf("server TLS: host %q is neither an IP address nor a DNS name", host)
		}
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &server{options: o}
	if _, err := s.config(nil); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: o.protocols(), GetConfigForClient: s.config}, nil
}

func (o Options) protocols() []string {
	if o.Webhook {
		return []string{"h2", "http/1.1"}
	}
	return []string{"h2"}
}

func isDNSName(s string) bool { return len(validation.IsDNS1123Subdomain(strings.ToLower(s))) == 0 }

type server struct {
	options Options

	mutex   sync.Mutex
	current *tls.Config
	renewAt time.Time
	roots   []*x509.Certificate // that current was made with
}

// config returns the configuration in force for one handshake. When a renewal fails while the certificate still
// holds, the old one goes on.
func (s *server) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now, roots := s.options.Now(), s.options.CA.Bundle()
	if s.current != nil && now.Before(s.renewAt) && slices.EqualFunc(s.roots, roots, (*x509.Certificate).Equal) {
		return s.current, nil
	}
	next, renewAt, err := s.make(now, roots)
	if err != nil {
		if s.current != nil && now.Before(s.current.Certificates[0].Leaf.NotAfter) {
			return s.current, nil
		}
		return nil, err
	}
	s.current, s.renewAt, s.roots = next, renewAt, roots
	return next, nil
}

func (s *server) make(now time.Time, roots []*x509.Certificate) (*tls.Config, time.Time, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("server TLS: %w", err)
	}
	chain, err := s.options.CA.SignServer(key.Public(), s.options.Hosts, s.options.TTL)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("server TLS: %w", err)
	}
	certificate := tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, c := range chain {
		certificate.Certificate = append(certificate.Certificate, c.Raw)
	}
	pool := x509.NewCertPool()
	for _, root := range roots {
		pool.AddCert(root)
	}
	clients := tls.VerifyClientCertIfGiven
	if s.options.Webhook {
		clients = tls.NoClientCert
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		NextProtos:             s.options.protocols(),
		Certificates:           []tls.Certificate{certificate},
		ClientAuth:             clients,
		ClientCAs:              pool,
		Time:                   s.options.Now,
		SessionTicketsDisabled: true, // connections are few and long; every one shows its certificate anew
	}, now.Add(chain[0].NotAfter.Sub(now) / 2), nil
}
