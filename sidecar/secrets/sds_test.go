package secrets

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// serveSDS serves the workload's secrets on a unix socket, as the agent does, and returns the socket's path.
func serveSDS(t testing.TB, w *Workload) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	w.RegisterSDS(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path
}

func sdsClient(t *testing.T, w *Workload) (secretv3.SecretDiscoveryServiceClient, context.Context) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+serveSDS(t, w), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return secretv3.NewSecretDiscoveryServiceClient(conn), ctx
}

func decode(t *testing.T, body *anypb.Any) *tlsv3.Secret {
	t.Helper()
	s := &tlsv3.Secret{}
	if err := body.UnmarshalTo(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// rotate gives the workload another certificate and returns it.
func rotate(t *testing.T, m *mesh, w *Workload) *certificate {
	t.Helper()
	c := obtain(t, m)
	w.publish(func(held material) material { held.certificate, held.issued = c, m.ca.Bundle(); return held })
	return c
}

func TestStreamSecrets(t *testing.T) {
	m := newMesh(t)
	w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile()})
	client, ctx := sdsClient(t, w)
	stream, err := client.StreamSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send := func(r *discoveryv3.DiscoveryRequest) {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(step string, names ...string) *discoveryv3.DiscoveryResponse {
		t.Helper()
		r, err := stream.Recv()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		var got []string
		for _, body := range r.GetResources() {
			got = append(got, decode(t, body).GetName())
		}
		if !slices.Equal(got, names) {
			t.Fatalf("%s: secrets %v, want %v", step, got, names)
		}
		return r
	}
	// The certificate is not there yet: no answer until it is.
	send(&discoveryv3.DiscoveryRequest{TypeUrl: secretType, ResourceNames: []string{CertificateName}})
	first := rotate(t, m, w)
	r := receive("when it is there", CertificateName)
	got := decode(t, r.GetResources()[0]).GetTlsCertificate()
	if string(got.GetCertificateChain().GetInlineBytes()) != string(first.chain) || string(got.GetPrivateKey().GetInlineBytes()) != string(first.key) {
		t.Error("not the workload's certificate")
	}
	// Accepted; then the next one is pushed.
	send(&discoveryv3.DiscoveryRequest{ResourceNames: []string{CertificateName}, VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce()})
	rotate(t, m, w)
	next := receive("rotated", CertificateName)
	if next.GetVersionInfo() == r.GetVersionInfo() {
		t.Error("same version")
	}
	// A late answer to the first response does nothing; refusing the second does not have it sent again; more names do.
	send(&discoveryv3.DiscoveryRequest{ResourceNames: []string{"stale"}, ResponseNonce: r.GetNonce()})
	send(&discoveryv3.DiscoveryRequest{
		ResourceNames: []string{CertificateName}, VersionInfo: r.GetVersionInfo(), ResponseNonce: next.GetNonce(),
		ErrorDetail: &status.Status{Message: "bad key"},
	})
	send(&discoveryv3.DiscoveryRequest{ResourceNames: []string{RootsName, CertificateName, "kubernetes://none"}, ResponseNonce: next.GetNonce()})
	r = receive("more names", RootsName, CertificateName)
	roots := decode(t, r.GetResources()[0]).GetValidationContext().GetTrustedCa().GetInlineBytes()
	if string(roots) != string(m.ca.BundlePEM()) {
		t.Error("not the mesh's roots")
	}
	send(&discoveryv3.DiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster", ResponseNonce: r.GetNonce()})
	if _, err := stream.Recv(); grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("another type: %v", err)
	}
}

func TestDeltaSecrets(t *testing.T) {
	m := newMesh(t)
	w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile()})
	client, ctx := sdsClient(t, w)
	stream, err := client.DeltaSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send := func(r *discoveryv3.DeltaDiscoveryRequest) {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(step string, names ...string) *discoveryv3.DeltaDiscoveryResponse {
		t.Helper()
		r, err := stream.Recv()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		var got []string
		for _, resource := range r.GetResources() {
			if s := decode(t, resource.GetResource()); s.GetName() != resource.GetName() {
				t.Errorf("%s: resource %s holds %s", step, resource.GetName(), s.GetName())
			}
			got = append(got, resource.GetName())
		}
		if !slices.Equal(got, names) {
			t.Fatalf("%s: secrets %v, want %v", step, got, names)
		}
		return r
	}
	send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: secretType, ResourceNamesSubscribe: []string{CertificateName, RootsName, "other"}})
	r := receive("the roots are there before the certificate", RootsName)
	send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: r.GetNonce()})
	rotate(t, m, w)
	first := receive("the certificate", CertificateName)
	rotate(t, m, w)
	receive("rotated: the roots are the same and stay away", CertificateName)
	send(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesUnsubscribe: []string{CertificateName}, ResponseNonce: first.GetNonce()})
	send(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{RootsName}})
	roots := receive("asked for again", RootsName)
	send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: roots.GetNonce(), ErrorDetail: &status.Status{Message: "bad roots"}})

	// A client that reconnects says what it has and gets what is new.
	again, err := client.DeltaSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	stream = again
	send(&discoveryv3.DeltaDiscoveryRequest{
		ResourceNamesSubscribe: []string{RootsName, CertificateName},
		InitialResourceVersions: map[string]string{
			RootsName: roots.GetResources()[0].GetVersion(), CertificateName: first.GetResources()[0].GetVersion(),
		},
	})
	receive("reconnected", CertificateName)
}

func TestSubscriptionsAreBounded(t *testing.T) {
	var names []string
	for i := range 10 * maxNames {
		names = append(names, strings.Repeat("x", i+1))
	}
	sotw, delta := &sotwSubscription{}, newDeltaSubscription()
	sotw.request(&discoveryv3.DiscoveryRequest{ResourceNames: names})
	delta.request(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: names})
	if len(sotw.names) > maxNames || len(delta.sent) > maxNames {
		t.Errorf("%d and %d names kept", len(sotw.names), len(delta.sent))
	}
}
