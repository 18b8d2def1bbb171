package relay

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/ondemand"
)

func newCertificatesBench(t *testing.T, dir string) *bench {
	t.Helper()
	c := newCertificates(slog.New(slog.DiscardHandler))
	b := newBench(t, dir, Watch{TypeURL: SecretType, Secret: true, Apply: func([]*discoveryv3.Resource, []string) map[string]error { return nil }}, c.watch())
	b.certificates = c
	b.controllerOpen()
	return b
}

// shows are hosts with the names of their secrets.
func (b *bench) shows(t *testing.T, removed []string, hosts ...string) {
	t.Helper()
	var list []*discoveryv3.Resource
	for _, h := range hosts {
		host, secret, _ := strings.Cut(h, "=")
		list = append(list, sealed(t, ondemand.ServerName(host), h, wrapperspb.String(secret)))
	}
	for i := range removed {
		removed[i] = ondemand.ServerName(removed[i])
	}
	b.controllerSays(ondemand.ServerNameType, "n", removed, list...)
}

// has are secrets, "NAME@VERSION".
func (b *bench) has(t *testing.T, removed []string, secrets ...string) {
	t.Helper()
	var list []*discoveryv3.Resource
	for _, s := range secrets {
		name, version, _ := strings.Cut(s, "@")
		list = append(list, sealed(t, name, version, &tlsv3.Secret{Name: name}))
	}
	b.controllerSays(SecretType, "s", removed, list...)
}

func sealed(t *testing.T, name, version string, m proto.Message) *discoveryv3.Resource {
	t.Helper()
	body, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.Resource{Name: name, Version: version, Resource: body}
}

func (b *bench) wantSent(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := b.sent(); !slices.Equal(got, want) {
		t.Errorf("%s: %q was sent, want %q", what, got, want)
	}
}

// TestCertificateByName: the most specific host's is shown, under the name that was asked for; what nobody has is closed at once.
func TestCertificateByName(t *testing.T) {
	b := newCertificatesBench(t, t.TempDir())
	b.subscribe(SecretType, "a.test")
	b.wantSent(t, "before anybody said which hosts there are")
	b.has(t, nil, "a@1", "wild@1")
	b.wantSent(t, "secrets alone")
	b.shows(t, nil, "a.test=a", "*.test=wild", "closed.test=", "gone.test=gone")
	b.wantSent(t, "then the hosts", "+a.test@1")
	for name, want := range map[string]string{
		"b.test": "+b.test@1", "x.y.test": "+x.y.test@1", "A.test": "+A.test@1", // wild, wild, a
		"test": "-test", "a.test.": "-a.test.", "closed.test": "-closed.test", "CLOSED.test": "-CLOSED.test", "gone.test": "-gone.test",
		"default": "-default", "ROOTCA": "-ROOTCA", "a": "-a", "wild": "-wild", ".": "-.", "": "-", "*": "-*", strings.Repeat("x", 300) + ".test": "-" + strings.Repeat("x", 300) + ".test",
	} {
		b.subscribe(SecretType, name)
		b.wantSent(t, name, want)
	}
	for name, want := range map[string]string{"a.test": "a", "A.test": "a", "b.test": "wild", "x.y.test": "wild"} {
		if got := b.certificates.asked[name].secret; got != want {
			t.Errorf("%s is shown %q, want %q", name, got, want)
		}
	}
	if n := len(b.certificates.asked); n != 4 {
		t.Errorf("%d names are remembered, want those 4 that are shown something", n)
	}
	b.shows(t, nil, "*=wild")
	b.sent()
	b.subscribe(SecretType, ".")
	b.wantSent(t, "no name, where there is a server for all", "+.@1")
	var secret tlsv3.Secret
	if err := proto.Unmarshal(byName(sealed(t, "a", "1", &tlsv3.Secret{Name: "a"}), "b.test").GetResource().GetValue(), &secret); err != nil || secret.Name != "b.test" {
		t.Errorf("renamed: %q, %v", secret.Name, err)
	}
}

// TestCertificateChanges: who uses what changed is told, and nobody else.
func TestCertificateChanges(t *testing.T) {
	dir := t.TempDir()
	b := newCertificatesBench(t, dir)
	b.has(t, nil, "a@1", "b@1", "wild@1")
	b.shows(t, nil, "a.test=a", "b.test=b", "*.wild.test=wild")
	b.subscribe(SecretType, "a.test", "b.test", "x.wild.test")
	b.wantSent(t, "at first", "+a.test@1 +b.test@1 +x.wild.test@1")
	b.has(t, nil, "a@2")
	b.wantSent(t, "rotation", "+a.test@2")
	b.shows(t, nil, "b.test=a")
	b.wantSent(t, "another secret", "+b.test@2")
	b.shows(t, nil, "x.wild.test=")
	b.wantSent(t, "closed below a pattern", "-x.wild.test")
	b.shows(t, []string{"x.wild.test"})
	b.wantSent(t, "nobody asks for it any more")
	b.has(t, []string{"b"})
	b.wantSent(t, "a secret that nobody is shown")
	b.has(t, []string{"a"})
	if got := b.sent(); len(got) != 1 || !strings.Contains(got[0], "-a.test") || !strings.Contains(got[0], "-b.test") {
		t.Errorf("a secret that went: %q", got)
	}
	b.has(t, nil, "a@3")
	b.wantSent(t, "nobody waits")
	b.subscribe(SecretType, "a.test")
	b.wantSent(t, "asked anew", "+a.test@3")
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: SecretType, ResourceNamesUnsubscribe: []string{"a.test"}})
	b.has(t, nil, "a@4")
	b.wantSent(t, "unsubscribed")

	b.envoyGone()
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: SecretType, ResourceNamesSubscribe: []string{"a.test", "b.test", "none.test"}, InitialResourceVersions: map[string]string{"a.test": "4", "b.test": "3"},
	})
	b.wantSent(t, "an Envoy that came again", "+b.test@4 -none.test")
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: SecretType, ResponseNonce: fmt.Sprint(b.nonce), ErrorDetail: &status.Status{Message: "no key"},
	})
	b.wantSent(t, "what Envoy refuses is closed, and does not wait", "-b.test")

	again := newCertificates(slog.New(slog.DiscardHandler))
	b.certificates = again
	for _, k := range b.kinds {
		if k.url == ondemand.ServerNameType {
			watch := again.watch()
			k.watch = &watch
		}
	}
	b.restore()
	b.subscribe(SecretType, "a.test", "none.test")
	b.wantSent(t, "from disk", "+a.test@4 -none.test")
}

// TestManyNamesBelowAPattern: clients that make names up make Envoy hold no more than some.
func TestManyNamesBelowAPattern(t *testing.T) {
	b := newCertificatesBench(t, t.TempDir())
	b.has(t, nil, "own@1", "wild@1")
	b.shows(t, nil, "own.test=own", "*.test=wild")
	b.subscribe(SecretType, "own.test")
	b.sent()
	for i := range mostLoose {
		b.subscribe(SecretType, fmt.Sprintf("x%d.test", i))
	}
	if got := len(b.sent()); got != mostLoose {
		t.Fatalf("%d answers", got)
	}
	b.subscribe(SecretType, "more.test")
	b.wantSent(t, "one more", "+more.test@1 -x0.test")
	b.subscribe(SecretType, "x0.test")
	b.wantSent(t, "the one that was given up", "+x0.test@1 -x1.test")
	for i := range 100 {
		b.subscribe(SecretType, fmt.Sprintf("nobody-%d.example", i))
	}
	if c := b.certificates; len(c.asked) != mostLoose+1 || c.loose.Len() != mostLoose || len(c.by["wild"]) != mostLoose || c.asked["own.test"] == nil {
		t.Errorf("%d names, %d of them loose", len(c.asked), c.loose.Len())
	}
}
