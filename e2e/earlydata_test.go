package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// Early data (RFC 8446, 2.3) is what a client sends behind its ClientHello, before anybody answers: by a session that it has from before.

const (
	earlyAccepted = "Early data was accepted"
	earlyRejected = "Early data was rejected"
	earlyTaken    = "Early data received" // what the server says
)

// earlyClient is OpenSSL's client on a host.
type earlyClient struct {
	host   *world.Host
	folder string
	args   []string // to whom, by which certificate
}

// session speaks TLS once, and keeps the session that the server gives.
func (c earlyClient) session(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(c.folder, name+".session")
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := c.host.Command(ctx, 0, append([]string{"openssl", "s_client", "-tls1_3", "-sess_out", file}, c.args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err = world.Poll(ctx, 10*time.Millisecond, func() error { // the session comes after the handshake
		if found, err := os.ReadFile(file); err != nil || !bytes.Contains(found, []byte("-----END")) {
			return fmt.Errorf("no session is given: %w", err)
		}
		return nil
	})
	_, _ = io.WriteString(in, "Q\n")
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return file
}

// send resumes a session with early data, and gives all that the client says of it.
func (c earlyClient) send(ctx context.Context, t *testing.T, session, data string) string {
	t.Helper()
	file := filepath.Join(c.folder, "data")
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := c.host.Command(ctx, 0, append([]string{"openssl", "s_client", "-tls1_3", "-sess_in", session, "-early_data", file}, c.args...)...)
	cmd.Stdin = strings.NewReader("Q\n")
	out, _ := cmd.CombinedOutput() // of a client that is refused, too
	return string(out)
}

// withEarlyData forges a session, as if the server had said that it takes early data.
func withEarlyData(t *testing.T, session string) string {
	t.Helper()
	text, err := os.ReadFile(session)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	var fields []asn1.RawValue
	if _, err := asn1.Unmarshal(block.Bytes, &fields); err != nil {
		t.Fatal(err)
	}
	const maxEarlyData = 15 // its tag; fields are in their tags' order
	value, err := asn1.Marshal(16384)
	if err != nil {
		t.Fatal(err)
	}
	forged, done := []asn1.RawValue(nil), false
	for _, f := range fields {
		own := f.Class == asn1.ClassContextSpecific
		if own && f.Tag == maxEarlyData {
			t.Fatalf("%s: the server says that it takes early data", session)
		}
		if own && f.Tag > maxEarlyData && !done {
			forged, done = append(forged, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: maxEarlyData, IsCompound: true, Bytes: value}), true
		}
		forged = append(forged, f)
	}
	if !done {
		forged = append(forged, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: maxEarlyData, IsCompound: true, Bytes: value})
	}
	raw, err := asn1.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	file := session + ".forged"
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// keyPair writes a certificate and its key into files.
func keyPair(t *testing.T, folder string, c *tls.Certificate) (certificate, key string) {
	t.Helper()
	certificate, key = filepath.Join(folder, "certificate.pem"), filepath.Join(folder, "key.pem")
	var chain bytes.Buffer
	for _, der := range c.Certificate {
		chain.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{certificate: chain.Bytes(), key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// earlyData: a gateway resumes a client's session and takes no early data by it, whatever the client makes of what it was told.
func (a *attack) earlyData(t *testing.T) {
	folder := t.TempDir()
	certificate, key := keyPair(t, folder, &a.app)
	c := earlyClient{a.scene.World.Control, folder, []string{"-connect", gatewayAddr, "-cert", certificate, "-key", key, "-alpn", "http/1.1"}}
	session := withEarlyData(t, c.session(t.Context(), t, "gateway"))
	request := "GET http://headers.test:8080/%s HTTP/1.1\r\nHost: headers.test:8080\r\n\r\n"
	out := c.send(t.Context(), t, session, fmt.Sprintf(request, "early"))
	if !strings.Contains(out, earlyRejected) || !strings.Contains(out, "Reused, TLSv1.3") {
		t.Errorf("early data by a session that is resumed: %s", out)
	}
	if status, err := a.ask1(t, fmt.Sprintf(request, "late")); err != nil || status != 200 || len(a.book.requests("/late")) == 0 {
		t.Errorf("a request after the handshake: %d, %v", status, err)
	}
	if len(a.book.requests("/early")) > 0 {
		t.Error("the server was asked for what came as early data")
	}
}

// earlyData: a server outside takes early data by sessions that it gave while a policy allowed it; of one that the policy denies now, none gets
// there, though it comes in one flight with what the question is about.
func (p *policed) earlyData(t *testing.T) {
	at := netip.AddrPortFrom(world.OutsideAddrs[1], policedTLS)
	folder := t.TempDir()
	own, err := p.scene.Outside.CA.Issue("early.policed.test")
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := keyPair(t, folder, own)
	const log = "early-data-server"
	serve := fmt.Sprintf("tail -f /dev/null | openssl s_server -accept %s -cert %s -key %s -tls1_3 -early_data -no_anti_replay", at, certificate, key) // it ends with its input
	if _, err := p.scene.World.Outside.Start(log, 0, "sh", "-c", serve); err != nil {
		t.Fatal(err)
	}
	var objects strings.Builder
	for _, host := range []string{"early.policed.test", "barred.policed.test"} {
		p.scene.Outside.Set(host, time.Minute, at.Addr())
		fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %q, namespace: default}\n"+
			"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: tls, protocol: TLS}]}\n", host, host, policedTLS)
	}
	if err := p.scene.Config.Write("early.yaml", objects.String()); err != nil {
		t.Fatal(err)
	}
	client := func(host string) earlyClient {
		addr, err := p.app.resolve(p.ctx, host)
		if err != nil { // its registration is not read yet
			addr = p.app.named(host)
		}
		return earlyClient{p.app.host, folder, []string{"-connect", netip.AddrPortFrom(addr, policedTLS).String(), "-servername", host}}
	}
	handshake := func(host string) error {
		ctx, cancel := context.WithTimeout(p.ctx, leastLimit)
		defer cancel()
		c, err := p.app.host.DialContext(ctx, "tcp", client(host).args[1])
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return tls.Client(c, &tls.Config{ServerName: host, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}).HandshakeContext(ctx)
	}
	write := func(more string, barredOpen bool) {
		t.Helper()
		p.write(t, fmt.Sprintf("  rules: [{name: early, hosts: [early.policed.test%s], action: Allow}]\n", more))
		if err := world.Within(p.ctx, 4*time.Minute, func() error {
			if err := handshake("early.policed.test"); err != nil {
				return fmt.Errorf("early.policed.test is closed: %w", err)
			}
			for range 2 { // one that takes too long says nothing
				err := handshake("barred.policed.test")
				if late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded); late || (err == nil) != barredOpen {
					return fmt.Errorf("barred.policed.test: %w", err)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	write(", barred.policed.test", true)
	sessions := map[string]string{}
	for _, host := range []string{"early.policed.test", "barred.policed.test"} {
		sessions[host] = client(host).session(p.ctx, t, host)
		if out := client(host).send(p.ctx, t, sessions[host], "allowed of "+host); !strings.Contains(out, earlyAccepted) {
			t.Fatalf("of %s, which is allowed: %s", host, out)
		}
	}
	write("", false)
	filler := strings.Repeat("x", 12_000)
	if out := client("barred.policed.test").send(p.ctx, t, sessions["barred.policed.test"], "denied"+filler+"denied"); strings.Contains(out, earlyAccepted) {
		t.Errorf("of what is denied: %s", out)
	}
	if out := client("early.policed.test").send(p.ctx, t, sessions["early.policed.test"], "last"); !strings.Contains(out, earlyAccepted) {
		t.Errorf("of what is still allowed: %s", out)
	}
	var heard string
	if err := world.Within(p.ctx, time.Minute, func() error { // what came before it is there when the last is
		text, err := os.ReadFile(p.scene.World.Run.LogFile(log))
		if heard = string(text); err == nil && !strings.Contains(heard, "last") {
			err = fmt.Errorf("the server has not heard the last: %s", heard)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(heard, earlyTaken) != 3 || strings.Contains(heard, "denied") {
		t.Errorf("the server heard: %s", heard)
	}
}
