package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	networking "istio.io/api/networking/v1alpha3"
	istio "istio.io/client-go/pkg/apis/networking/v1"
	admissionapi "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/pacedlog"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/servertls"
	"github.com/sallyport/sallyport/xds/netcap"
)

// TestNoMessageBeforeTheGuard: the port that everybody reaches has no unary method, whose message is read before the guard is asked.
func TestNoMessageBeforeTheGuard(t *testing.T) {
	p, err := newPlane(t.Context(), Config{DataDir: t.TempDir(), AuditSocket: "/nowhere", Source: &fed{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.secureServer(t.Context(), "cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.server.Stop()
		ended, end := context.WithCancel(t.Context())
		end()
		for _, job := range s.jobs { // they close what they use
			job(ended)
		}
	}()
	services := s.server.GetServiceInfo()
	for _, name := range []string{"istio.v1.auth.IstioCertificateService", "envoy.service.discovery.v3.AggregatedDiscoveryService"} {
		if len(services[name].Methods) == 0 {
			t.Errorf("%s is not served", name)
		}
	}
	for name, service := range services {
		for _, m := range service.Methods {
			if !m.IsClientStream && !m.IsServerStream {
				t.Errorf("%s/%s is unary", name, m.Name)
			}
		}
	}
}

// reviewed is the port of webhooks alone, over TLS on a real socket.
type reviewed struct {
	*testing.T
	plane   *plane
	room    *netcap.Shares
	address string
	path    string // by which the API server asks about objects
	log     bytes.Buffer
}

func reviews(t *testing.T) *reviewed {
	t.Helper()
	r := &reviewed{T: t, room: netcap.NewShares(reviewRoom)}
	var err error
	if r.plane, err = newPlane(t.Context(), Config{DataDir: t.TempDir(), Source: &fed{}, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	if c.authority, err = ca.Open(ca.Options{DataDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if r.path, err = c.validatingPath(); err != nil {
		t.Fatal(err)
	}
	secure, err := servertls.New(servertls.Options{CA: c.authority, Hosts: servertls.Hosts(), Webhook: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	srv := webhookServer(c.reviews(r.plane.objectReviews(pacedlog.New(slog.New(slog.NewTextHandler(&r.log, nil)), reviewLine), letIn(r.room)), nil), slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(tls.NewListener(l, secure)) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return r
}

// connect comes from an address of loopback's.
func (r *reviewed) connect(from string, protocol string) *tls.Conn {
	r.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := tls.DialWithDialer(&d, "tcp", r.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(soon))
	return c
}

// ask asks about an object, and gives the status and the answer.
func (r *reviewed) ask(from, path, name string, o any) (int, *admissionapi.AdmissionResponse) {
	r.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		r.Fatal(err)
	}
	body, err := json.Marshal(admissionapi.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionapi.AdmissionRequest{UID: "u", Name: name, Operation: admissionapi.Create, Object: runtime.RawExtension{Raw: raw}},
	})
	if err != nil {
		r.Fatal(err)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	resp, err := client.Post("https://"+r.address+path, "application/json", bytes.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	var answer admissionapi.AdmissionReview
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &answer); err != nil {
			r.Fatalf("%s: %v", text, err)
		}
	}
	return resp.StatusCode, answer.Response
}

// tlsEntry is a ServiceEntry.
func tlsEntry(namespace, host string, exportTo ...string) *istio.ServiceEntry {
	e := &istio.ServiceEntry{TypeMeta: metav1.TypeMeta{APIVersion: "networking.istio.io/v1", Kind: "ServiceEntry"}, ObjectMeta: metav1.ObjectMeta{Name: "entry", Namespace: namespace}}
	e.Spec.Hosts, e.Spec.ExportTo = []string{host}, exportTo
	e.Spec.Location, e.Spec.Resolution = networking.ServiceEntry_MESH_EXTERNAL, networking.ServiceEntry_DNS
	e.Spec.Ports = []*networking.ServicePort{{Number: 443, Name: "tls", Protocol: "TLS"}}
	return e
}

// begin begins calls on one connection of HTTP/2, each of which says that its body has so many bytes, and sends one. It gives how many were refused when
// as many are answered as can be.
func (r *reviewed) begin(from string, calls, bytes, refused int) (statuses map[string]int) {
	r.Helper()
	c := r.connect(from, "h2")
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		r.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		r.Fatal(err)
	}
	var head strings.Builder
	enc := hpack.NewEncoder(&head)
	for i := range calls {
		head.Reset()
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "https"}, {":path", "/validate"}, {":authority", "x"}, {"content-type", "application/json"}, {"content-length", fmt.Sprint(bytes)},
		} {
			_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		id := uint32(2*i + 1)
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(head.String()), EndHeaders: true}); err != nil {
			r.Fatal(err)
		}
		if err := f.WriteData(id, false, []byte("{")); err != nil {
			r.Fatal(err)
		}
	}
	statuses = map[string]int{}
	for answered := 0; answered < refused; {
		frame, err := f.ReadFrame()
		if err != nil {
			r.Fatalf("after %v: %v", statuses, err)
		}
		if head, ok := frame.(*http2.MetaHeadersFrame); ok {
			answered++
			statuses[head.PseudoValue("status")]++
		}
	}
	return statuses
}

// TestStrangersReviews: what strangers say they will send has its bounds before a byte is read, the first that has them all gives to others, and the API server is answered.
func TestStrangersReviews(t *testing.T) {
	r := reviews(t)
	const large, each = 8<<20 - reviewHead, 8
	if got := r.begin("127.0.0.2", 100, large, 100-each); got["429"] != 100-each {
		t.Errorf("%v, want %d refused", got, 100-each)
	}
	one := netip.MustParsePrefix("127.0.0.2/32")
	if n := r.room.Held(one); n != reviewRoom {
		t.Errorf("%d bytes are taken by the first", n)
	}
	r.begin("127.0.0.3", 100, large, 100-each/2)
	if n := r.room.Held(one); n != reviewRoom/2 {
		t.Errorf("%d bytes are the first one's, beside another one", n)
	}
	for _, ask := range []struct{ from, path string }{{"127.0.0.1", r.path}, {"127.0.0.4", "/validate"}} {
		if status, answer := r.ask(ask.from, ask.path, "entry", tlsEntry("b", "api.partner.example")); status != http.StatusOK || !answer.Allowed {
			t.Errorf("%v beside them: %d", ask, status)
		}
	}
	if status, _ := r.ask("127.0.0.4", "/validate", strings.Repeat("x", 9<<20), tlsEntry("b", "api.partner.example")); status != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", status)
	}
}

// TestStrangersLearnNothing: what others' objects have to do with one is said to the API server, and nobody else.
func TestStrangersLearnNothing(t *testing.T) {
	r := reviews(t)
	others := tlsEntry("a", "api.partner.example", ".")
	others.Spec.Resolution = networking.ServiceEntry_NONE
	raw, err := json.Marshal(others)
	if err != nil {
		t.Fatal(err)
	}
	read := decode.File("a.json", raw)
	r.plane.known.apply([]config.Change{{Key: read.Objects[0].Key, Object: &read.Objects[0]}})
	asked := tlsEntry("b", "api.partner.example")
	asked.Name = "other"
	if _, answer := r.ask("127.0.0.1", r.path, "other", asked); !strings.Contains(fmt.Sprint(answer.Warnings), "a/entry") {
		t.Errorf("the API server hears %q", answer.Warnings)
	}
	if _, answer := r.ask("127.0.0.1", "/validate", "other", asked); strings.Contains(fmt.Sprint(answer), "a/entry") {
		t.Errorf("a stranger hears %q", answer.Warnings)
	}
}

// TestStrangersLines: what is refused is written shortly, and seldom.
func TestStrangersLines(t *testing.T) {
	r := reviews(t)
	for range 30 {
		if _, answer := r.ask("127.0.0.2", "/validate", strings.Repeat("x", 1<<20), tlsEntry("b", "no host")); answer == nil || answer.Allowed {
			t.Fatal("it was not refused")
		}
	}
	if n := strings.Count(r.log.String(), "an object is refused"); n == 0 || n == 30 || r.log.Len() > 30*4<<10 {
		t.Errorf("%d lines of %d bytes", n, r.log.Len())
	}
}
