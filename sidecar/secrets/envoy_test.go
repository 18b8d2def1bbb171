package secrets

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// envoyConfig is a server whose certificate and roots come over SDS, by the given protocol, and which wants a client
// certificate of the mesh.
const envoyConfig = `
node: {id: "sidecar~127.0.0.1~checkout.shop~shop.svc.cluster.local", cluster: checkout}
static_resources:
  listeners:
  - name: inbound
    address: {pipe: {path: "@SOCKET@"}}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          require_client_certificate: true
          common_tls_context:
            tls_certificate_sds_secret_configs: [{name: default, sds_config: &sds {resource_api_version: V3, api_config_source: {api_type: @API@, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: sds-grpc}}]}}}]
            combined_validation_context:
              default_validation_context:
                match_typed_subject_alt_names: [{san_type: URI, matcher: {prefix: "spiffe://cluster.local/"}}]
              validation_context_sds_secret_config: {name: ROOTCA, sds_config: *sds}
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: inbound
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: hello}}}]}]}
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
  clusters:
  - name: sds-grpc
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: sds-grpc, endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: "@AGENT@"}}}}]}]}
`

func envoyBinary(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no cache folder to look for Envoy in: %v", err)
	}
	path := filepath.Join(cache, "sallyport", "envoy-1.40.0", "envoy")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no Envoy at %s: `make envoy` fetches it", path)
	}
	return path
}

// startEnvoy runs Envoy until the test ends and returns its listener's socket.
func startEnvoy(t *testing.T, api, agentSocket string) string {
	t.Helper()
	folder := t.TempDir()
	socket := filepath.Join(folder, "inbound.sock")
	config := filepath.Join(folder, "envoy.yaml")
	text := strings.NewReplacer("@SOCKET@", socket, "@AGENT@", agentSocket, "@API@", api).Replace(envoyConfig)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	envoy := exec.Command(envoyBinary(t), "-c", config, "--concurrency", "1", "--disable-hot-restart", "-l", "warning")
	envoy.Stdout, envoy.Stderr = &output, &output
	envoy.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := envoy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = envoy.Process.Signal(syscall.SIGTERM)
		_ = envoy.Wait()
		if t.Failed() {
			t.Logf("Envoy said:\n%s", &output)
		}
	})
	return socket
}

// get asks over a new TLS connection and returns the serial number of the certificate that Envoy showed.
func get(ctx context.Context, socket string, client *tls.Config) (serial string, err error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			raw, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
			if err != nil {
				return nil, err
			}
			conn := tls.Client(raw, client)
			if err := conn.HandshakeContext(ctx); err != nil {
				return nil, errors.Join(err, raw.Close())
			}
			leaf := conn.ConnectionState().PeerCertificates[0]
			if now := time.Now(); now.After(leaf.NotAfter) {
				return nil, errors.Join(fmt.Errorf("certificate expired %s ago", now.Sub(leaf.NotAfter)), conn.Close())
			}
			serial = leaf.SerialNumber.String()
			return conn, nil
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://checkout/", nil)
	if err != nil {
		return "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		return "", errors.Join(fmt.Errorf("status %s", response.Status), err)
	}
	return serial, nil
}

// meshClient verifies and shows certificates as a peer in the mesh does.
func meshClient(w *Workload) *tls.Config {
	config := w.ClientTLS()
	config.NextProtos = nil
	roots := config.RootCAs
	// A workload's certificate has a SPIFFE id and no DNS name: the chain is verified here, the name is not asked.
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if got := s.PeerCertificates[0].URIs; len(got) != 1 || got[0].String() != checkout.String() {
			return fmt.Errorf("certificate of %v", got)
		}
		options := x509.VerifyOptions{Roots: roots, Intermediates: pool(s.PeerCertificates[1:])}
		_, err := s.PeerCertificates[0].Verify(options)
		return err
	}
	return config
}

// Envoy takes its certificate from the agent and follows each rotation, the root's too; nobody's request notices.
func TestEnvoyFollowsRotations(t *testing.T) {
	envoyBinary(t)
	for _, api := range []string{"GRPC", "DELTA_GRPC"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t)
			c := m.serve(2 * time.Minute)
			w := newWorkload(t, Options{
				Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile(), TokenFile: m.tokenFile("checkout"),
				Log:    slog.New(slog.NewTextHandler(t.Output(), nil)),
				Random: func() float64 { return -4.35 }, // renewed after 1.5 % of the lifetime, long before any certificate ends
			})
			// Envoy is there first: it waits for its certificate.
			socket := startEnvoy(t, api, serveSDS(t, w))
			stop := run(t, w, dial(t, w, c.address))
			defer stop()
			await(t, "the first certificate", w.Ready())
			deadline, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			for { // until Envoy listens
				if _, err := get(deadline, socket, meshClient(w)); err == nil {
					break
				} else if deadline.Err() != nil {
					t.Fatalf("Envoy does not serve: %v", err)
				}
				<-time.After(50 * time.Millisecond)
			}
			requests := 0
			// follow sends requests until Envoy shows a certificate that came with these roots, after so many others;
			// each request has to succeed.
			follow := func(step string, others int, roots ...*mesh) {
				t.Helper()
				serials, complete := map[string]bool{}, false
				for ; !complete || len(serials) <= others; requests++ {
					serial, err := get(deadline, socket, meshClient(w))
					if err != nil {
						t.Fatalf("%s: request %d, after %d certificates: %v", step, requests, len(serials), err)
					}
					serials[serial] = true
					held := w.board.read()
					complete = held.certificate.leaf.SerialNumber.String() == serial && len(held.roots()) == len(roots) &&
						held.certificate.trustedBy(roots[0].ca.Bundle()[:1], time.Now()) == nil
				}
			}
			follow("one root", 2, m)
			next, old := newMesh(t), m.ca.Bundle()[0]
			m.trust(next.ca.Bundle()[0], old)
			follow("the next root is trusted", 1, m, next)
			m.signWith(next)
			follow("the next root signs", 0, next, m)
			m.trust()
			follow("the old root is gone", 1, next)
			t.Logf("%d requests without a failure", requests)

			if _, err := get(deadline, socket, &tls.Config{InsecureSkipVerify: true}); err == nil {
				t.Error("a client without a certificate was let in")
			}
			stranger := newMesh(t)
			foreign := obtain(t, stranger).pair
			if _, err := get(deadline, socket, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &foreign, nil
			}}); err == nil {
				t.Error("a client of another mesh was let in")
			}
		})
	}
}
