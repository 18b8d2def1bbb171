package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sallyport/sallyport/e2e/world"
)

// gatewayAddr is where the gateway takes what sidecars send.
var gatewayAddr = netip.AddrPortFrom(world.GatewayAddr, 8443).String()

// attackTimeout bounds one exchange with the gateway, on a machine with much else to do.
const attackTimeout = time.Minute

// header is one field as it goes over the wire, pseudo-headers included and in this order.
type header struct{ name, value string }

// answer is what came back for a request of raw frames.
type answer struct {
	status  string // "" when no headers came
	headers []header
	body    string
	reset   string // how the stream or the connection ended without an answer
}

func (a answer) String() string {
	if a.status == "" {
		return "no answer (" + a.reset + ")"
	}
	return a.status + " " + a.body
}

// connect opens a TLS connection to the gateway, past every sidecar: from a host that redirects nothing.
func (a *attack) connect(ctx context.Context, certificate tls.Certificate) (*tls.Conn, error) {
	return a.connectTo(ctx, gatewayAddr, certificate)
}

// connectTo does so to another gateway.
func (a *attack) connectTo(ctx context.Context, gateway string, certificate tls.Certificate) (*tls.Conn, error) {
	raw, err := a.scene.World.Control.DialContext(ctx, "tcp", gateway)
	if err != nil {
		return nil, err
	}
	// The gateway's own identity is not the question here.
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	if certificate.Certificate != nil {
		config.Certificates = []tls.Certificate{certificate}
	}
	c := tls.Client(raw, config)
	if err := errors.Join(c.SetDeadline(time.Now().Add(attackTimeout)), c.HandshakeContext(ctx)); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return c, nil
}

// ask sends one request, as it is written, on a connection of its own, and then data. Of a tunnel without data only
// its beginning is waited for.
func (a *attack) ask(t *testing.T, certificate tls.Certificate, data string, fields ...header) answer {
	t.Helper()
	var c *tls.Conn
	if err := world.Within(t.Context(), 3*time.Minute, func() (err error) { // who takes too long for a handshake, on a machine with much else to do, is not waited for
		c, err = a.connect(t.Context(), certificate)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return askByHTTP2(t, c, data, fields...)
}

// askByHTTP2 does so on a connection that is there.
func askByHTTP2(t *testing.T, c net.Conn, data string, fields ...header) answer {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range fields {
		if err := enc.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := io.WriteString(c, http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	tunnel := fields[0].value == "CONNECT"
	errs := []error{
		err, framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: data == "" && !tunnel}),
	}
	if data != "" {
		errs = append(errs, framer.WriteData(1, false, []byte(data)))
	}
	got := readAnswer(framer, tunnel && data == "")
	if err := errors.Join(errs...); err != nil && got.status == "" { // closed while this was written: that is an answer
		got.reset = err.Error()
	}
	return got
}

// readAnswer reads the answer of the first stream. Who says that a connection will not be kept answers that stream all the same (RFC 9113, section 6.8), as Envoy does whose heap is nearly full.
func readAnswer(framer *http2.Framer, onlyHeaders bool) (got answer) {
	goes := "" // why the connection will not be kept
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			if got.reset = cmp.Or(got.reset, goes); got.reset == "" {
				got.reset = err.Error()
			}
			return got
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				if field.Name == ":status" {
					got.status = field.Value
				}
				got.headers = append(got.headers, header{field.Name, field.Value})
			}
			if onlyHeaders && got.status == "200" {
				return got
			}
		case *http2.DataFrame:
			got.body += string(f.Data())
		case *http2.RSTStreamFrame:
			got.reset = f.ErrCode.String()
			return got
		case *http2.GoAwayFrame:
			if goes = f.ErrCode.String(); f.ErrCode != http2.ErrCodeNo || f.LastStreamID == 0 {
				got.reset = goes
				return got
			}
		}
		if frame.Header().Type != http2.FrameSettings && frame.Header().Flags.Has(http2.FlagDataEndStream) && frame.Header().StreamID == 1 {
			return got
		}
	}
}

// multiplexed is one HTTP/2 connection to the gateway, for many tunnels.
func (a *attack) multiplexed(ctx context.Context, certificate tls.Certificate) (*http.ClientConn, netip.AddrPort, error) {
	c, err := a.connect(ctx, certificate)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, netip.AddrPort{}, err
	}
	transport := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
	transport.Protocols.SetHTTP2(true)
	client, err := transport.NewClientConn(ctx, "https", gatewayAddr)
	return client, netip.MustParseAddrPort(c.LocalAddr().String()), err
}

// tunnel is the inside of a CONNECT. Its context bounds it, not deadlines.
type tunnel struct {
	io.Reader
	io.Writer
	io.Closer
}

func (tunnel) LocalAddr() net.Addr              { return nil }
func (tunnel) RemoteAddr() net.Addr             { return nil }
func (tunnel) SetDeadline(time.Time) error      { return nil }
func (tunnel) SetReadDeadline(time.Time) error  { return nil }
func (tunnel) SetWriteDeadline(time.Time) error { return nil }

// closers closes all.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// refusedTunnel is a CONNECT that was answered with something else than 200.
type refusedTunnel struct {
	status int
	body   string
}

func (r refusedTunnel) Error() string { return fmt.Sprintf("CONNECT answered %d %s", r.status, r.body) }

// openTunnel asks for a tunnel; it ends with ctx.
func openTunnel(ctx context.Context, client *http.ClientConn, authority string) (net.Conn, error) {
	out, in := io.Pipe()
	req := (&http.Request{Method: "CONNECT", URL: &url.URL{Host: authority}, Host: authority, Header: http.Header{}, Body: out}).WithContext(ctx)
	resp, err := client.RoundTrip(req)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return nil, errors.Join(refusedTunnel{resp.StatusCode, string(body)}, in.Close(), resp.Body.Close())
	}
	return tunnel{Reader: resp.Body, Writer: in, Closer: closers{in, resp.Body}}, nil
}

// identity reads the certificate of a pod as its agent keeps it: what somebody inside the pod can take.
func identityOf(t *testing.T, runDir string) tls.Certificate {
	t.Helper()
	dir := filepath.Join(runDir, "state", "identity")
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// issuer signs workload certificates.
type issuer struct {
	cert *x509.Certificate
	key  any
}

// meshCA takes the mesh's key from the controller's disk, to make the workloads that the scene has no pods for.
func meshCA(t *testing.T, dataDir string) issuer {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dataDir, "ca", "ca-cert.pem"), filepath.Join(dataDir, "ca", "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return issuer{cert: pair.Leaf, key: pair.PrivateKey}
}

// strangeCA is an authority that the mesh does not know, under the same name.
func strangeCA(t *testing.T, like issuer) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: like.cert.Subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{cert, key}
}

// issue makes a workload's certificate; more are further names in it.
func (i issuer) issue(t *testing.T, spiffe string, valid time.Duration, more ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var ids []*url.URL
	for _, text := range append([]string{spiffe}, more...) {
		id, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{}, URIs: ids, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, key.Public(), i.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der, i.cert.Raw}, PrivateKey: key}
}

// caPool holds the outside's authority.
func caPool(t *testing.T, bundle []byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("the outside's CA is no PEM")
	}
	return pool
}
