package servertls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/xds/identity/ca"
)

// A webhook's server is called by the API server, which has no certificate of the mesh, over HTTP/2 or HTTP/1.1, and
// verifies it against the bundle in the webhook configuration: in every step of a rotation the bundle of the step before
// will do.
func TestWebhook(t *testing.T) {
	hand := clock.At(time.Now())
	data := t.TempDir()
	a := authority(t, ca.Options{DataDir: data, Now: hand.Now})
	config, err := New(Options{CA: a, Hosts: ServiceHosts("sallyport", "mesh"), Webhook: true, Now: hand.Now})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		TLSConfig: config, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto, len(r.TLS.PeerCertificates)) }),
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	defer func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	call := func(client *tls.Config, want string) {
		t.Helper()
		client.ServerName, client.Time = "sallyport.mesh.svc", hand.Now
		transport := &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: client.NextProtos == nil}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get("https://" + listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		var got string
		if _, err := fmt.Fscan(response.Body, &got); err != nil || got != want {
			t.Errorf("answer %q, %v; want %q", got, err, want)
		}
	}
	call(&tls.Config{RootCAs: rootsOf(a), NextProtos: []string{"http/1.1"}}, "HTTP/1.10")
	rotation := ca.Rotation{Store: ca.InFolder(data), Now: hand.Now}
	for range 3 {
		before := rootsOf(a)
		if _, err := rotation.Advance(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if changed, err := a.Reload(); err != nil || !changed {
			t.Fatalf("Reload = %v, %v", changed, err)
		}
		call(&tls.Config{RootCAs: before}, "HTTP/2.00")
		call(&tls.Config{RootCAs: rootsOf(a)}, "HTTP/2.00")
		hand.Advance(13 * time.Hour) // the server's certificate is due for renewal, too
		call(&tls.Config{RootCAs: rootsOf(a)}, "HTTP/2.00")
	}
}
