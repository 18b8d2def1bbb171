package secrets

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The first call proves itself by the token, later connections by the certificate; but a new certificate takes the token,
// always.
func TestTokenThenCertificate(t *testing.T) {
	m := newMesh(t)
	c := m.serve(time.Hour)
	o := Options{
		Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile(), TokenFile: m.tokenFile("checkout"),
		Namespace: "shop", ServiceAccount: "checkout",
	}
	w := newWorkload(t, o)
	stop := run(t, w, dial(t, w, c.address))
	await(t, "the first certificate", w.Ready())
	stop()
	if got := c.proofs(); !slices.Equal(got, []string{"token"}) {
		t.Errorf("first call: %v", got)
	}
	if s := w.Status(); s.Identity != checkout.String() {
		t.Errorf("identity %s", s.Identity)
	}
	for tokenFile, want := range map[string]codes.Code{o.TokenFile: codes.OK, "/nonexistent": codes.Unauthenticated, "": codes.Unauthenticated} {
		o.TokenFile = tokenFile
		w := newWorkload(t, o)
		if _, _, err := request(t.Context(), dial(t, w, c.address), 0, ""); status.Code(err) != want {
			t.Errorf("token file %q: %v, want %s", tokenFile, err, want)
		}
	}
	if got := c.proofs(); !slices.Equal(got[1:], []string{"certificate", "certificate", "certificate"}) {
		t.Errorf("later calls: %v", got)
	}
}

// A certificate that the controller would not accept must not stand in the token's way.
func TestUselessCertificateIsNotShown(t *testing.T) {
	m, former := newMesh(t), newMesh(t)
	c := m.serve(time.Hour)
	for name, o := range map[string]Options{
		"of a CA that is no more": {Folder: folderWith(t, former, obtain(t, former))},
		"expired while running":   {Folder: folderWith(t, m, obtain(t, m))},
	} {
		t.Run(name, func(t *testing.T) {
			o.CARootFile, o.TokenFile = m.rootFile(), m.tokenFile("checkout")
			w := newWorkload(t, o)
			if serial(w) == "" {
				t.Fatal("nothing stored")
			}
			if name == "expired while running" {
				held := w.board.read()
				leaf := *held.certificate.leaf
				leaf.NotAfter = time.Now().Add(-time.Second)
				held.certificate.leaf = &leaf
			}
			before := len(c.proofs())
			if _, _, err := request(t.Context(), dial(t, w, c.address), 0, ""); err != nil {
				t.Fatal(err)
			}
			if got := c.proofs()[before:]; !slices.Equal(got, []string{"token"}) {
				t.Errorf("proved by %v", got)
			}
		})
	}
}

func folderWith(t *testing.T, m *mesh, c *certificate) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "identity")
	if err := save(folder, c, m.ca.Bundle()); err != nil {
		t.Fatal(err)
	}
	return folder
}

// The token is read for each call, and nothing about it but its file's name is told.
func TestTokenFile(t *testing.T) {
	m := newMesh(t)
	path := filepath.Join(t.TempDir(), "token")
	w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile(), TokenFile: path})
	if _, err := (bearer{w}).GetRequestMetadata(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: %v", err)
	}
	for _, c := range []struct{ content, want string }{
		{"first\n", "Bearer first"}, {"second", "Bearer second"}, {"", ""}, {" \n", ""}, {"s3cr3t\ns3cr3t", ""}, {"third", "Bearer third"},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := (bearer{w}).GetRequestMetadata(t.Context())
		if got["authorization"] != c.want || (c.want == "") != (err != nil) {
			t.Errorf("%q: %v, %v", c.content, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), path)) {
			t.Errorf("%q: error %v", c.content, err)
		}
	}
	if !(bearer{w}).RequireTransportSecurity() {
		t.Error("the token travels without TLS")
	}
	synctest.Test(t, func(t *testing.T) { // a token file that is not configured
		w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile()})
		if _, err := (bearer{w}).GetRequestMetadata(t.Context()); err == nil || !strings.Contains(err.Error(), "--token") {
			t.Errorf("no file: %v", err)
		}
	})
}

// A server that the mesh's roots do not vouch for gets neither token nor call.
func TestWrongControllerIsRefused(t *testing.T) {
	m, impostor := newMesh(t), newMesh(t)
	c := impostor.serve(time.Hour)
	w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile(), TokenFile: m.tokenFile("checkout")})
	_, _, err := request(t.Context(), dial(t, w, c.address), 0, "")
	if err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("error %v", err)
	}
	if got := c.proofs(); len(got) != 0 {
		t.Errorf("the impostor was told %v", got)
	}
}

// The roots of the --ca-root file are those of the moment of the handshake.
func TestHandshakeFollowsTheRootFile(t *testing.T) {
	m, other := newMesh(t), newMesh(t)
	c := m.serve(time.Hour)
	file := filepath.Join(t.TempDir(), "root-cert.pem")
	if err := os.WriteFile(file, other.ca.BundlePEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: file, TokenFile: m.tokenFile("checkout")})
	conn := dial(t, w, c.address)
	if _, _, err := request(t.Context(), conn, 0, ""); err == nil {
		t.Fatal("a controller without a trusted root was believed")
	}
	if err := os.WriteFile(file, m.ca.BundlePEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	stop := run(t, w, conn) // rereads the file, and reconnects when gRPC's back-off is over
	defer stop()
	await(t, "a certificate after the roots changed", w.Ready())
}

func TestClientTLS(t *testing.T) {
	m := newMesh(t)
	w := newWorkload(t, Options{Folder: folderWith(t, m, obtain(t, m)), CARootFile: m.rootFile()})
	config := w.ClientTLS()
	if config.MinVersion < tls.VersionTLS12 || config.InsecureSkipVerify || config.RootCAs == nil {
		t.Errorf("configuration %+v", config)
	}
}
