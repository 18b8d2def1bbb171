package send

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/ocsf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

func someRecords() []record.Record {
	one := record.Record{Proxy: "p", Epoch: 1, Seq: 7, Time: now, Class: record.HTTP, Verdict: record.Denied, Host: "<evil>.test", Method: "GET", URLPath: "/\n<1>1"}
	two := one
	two.Seq, two.Class = 8, record.Network
	return []record.Record{one, two}
}

func receiverOf(t *testing.T, target string, o Options) *Records {
	t.Helper()
	r, err := NewRecords(target, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ids are those of events.
func ids(t *testing.T, events ...[]byte) string {
	t.Helper()
	var out []string
	for _, b := range events {
		var e ocsf.Event
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		out = append(out, e.Metadata.UID)
	}
	return strings.Join(out, " ")
}

const wantIDs = "p/1/7 p/1/8"

func TestRecordsByHTTP(t *testing.T) {
	for _, kind := range []string{"ocsf", "splunk", "otlp"} {
		s, got := server(t, 503, 200)
		if err := receiverOf(t, kind+"="+target(t, s.URL+"/in", "Authorization: Splunk abc"), options()).Send(t.Context(), someRecords()); err != nil {
			t.Fatal(kind, err)
		}
		<-got
		request := <-got
		var events [][]byte
		switch kind {
		case "ocsf":
			var list []json.RawMessage
			if err := json.Unmarshal(request.body, &list); err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				events = append(events, e)
			}
		case "splunk":
			for line := range bytes.Lines(request.body) {
				var e struct {
					Time  float64
					Event json.RawMessage
				}
				if err := json.Unmarshal(line, &e); err != nil || e.Time != float64(now.Unix()) {
					t.Fatalf("%s: %v", line, err)
				}
				events = append(events, e.Event)
			}
		case "otlp":
			var message collogs.ExportLogsServiceRequest
			if err := proto.Unmarshal(request.body, &message); err != nil {
				t.Fatal(err)
			}
			for _, r := range message.ResourceLogs[0].ScopeLogs[0].LogRecords {
				events = append(events, []byte(r.Body.GetStringValue()))
			}
		}
		if got := ids(t, events...); got != wantIDs || request.path != "/in" || request.auth != "Splunk abc" {
			t.Errorf("%s: %s at %s by %s", kind, got, request.path, request.auth)
		}
		refusing, _ := server(t, 403)
		err := receiverOf(t, kind+"="+target(t, refusing.URL+"/"+secret), options()).Send(t.Context(), someRecords())
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s, refused: %v", kind, err)
		}
	}
}

// TestConnectionsAreKept: batches come by one connection, also where the other side has an error now and then, until it is old; and by a new one where the
// other side ends it after each.
func TestConnectionsAreKept(t *testing.T) {
	for _, kind := range []string{"ocsf", "splunk", "otlp"} {
		requests, connections := 0, map[string]bool{}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			connections[r.RemoteAddr] = true
			if r.URL.Path == "/ends" {
				w.Header().Set("Connection", "close")
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil || requests == 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		defer s.Close()
		o, hand := options(), clock.At(now)
		o.Now = hand.Now
		file := target(t, s.URL+"/in")
		r := receiverOf(t, kind+"="+file, o)
		defer r.Close()
		send := func(batches int) {
			t.Helper()
			for range batches {
				if err := r.Send(t.Context(), someRecords()); err != nil {
					t.Fatal(kind, err)
				}
			}
		}
		if send(5); requests != 6 || len(connections) != 1 {
			t.Errorf("%s: %d requests by %d connections", kind, requests, len(connections))
		}
		hand.Advance(keptFor)
		if send(3); len(connections) != 2 {
			t.Errorf("%s, when it is old: %d connections", kind, len(connections))
		}
		if err := os.WriteFile(file, []byte(s.URL+"/ends\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if send(3); requests != 12 || len(connections) != 4 {
			t.Errorf("%s, when it ends them: %d requests by %d connections", kind, requests, len(connections))
		}
	}
}

// TestRecordsBySyslog: taken is what was read; a server that resets the connection instead has not taken it.
func TestRecordsBySyslog(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer web.Close()
	o := options()
	o.CAFile = target(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := tls.NewListener(plain, &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12})
	defer l.Close()
	read := make(chan [][]byte, 1)
	go func() {
		defer close(read)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var all [][]byte
		for r := bufio.NewReader(conn); ; {
			var n int
			if _, err := fmt.Fscanf(r, "%d ", &n); err != nil {
				break
			}
			text := make([]byte, n)
			if _, err := io.ReadFull(r, text); err != nil {
				break
			}
			all = append(all, text)
		}
		read <- all
	}()
	if err := receiverOf(t, "syslog="+target(t, "tls://"+l.Addr().String()), o).Send(t.Context(), someRecords()); err != nil {
		t.Fatal(err)
	}
	var events [][]byte
	for _, message := range <-read {
		header, event, _ := bytes.Cut(message, []byte(" - {"))
		if !bytes.HasPrefix(header, []byte("<110>1 2026-03-18T12:00:00.000000Z ")) || bytes.ContainsRune(event, '\n') {
			t.Errorf("%s", message)
		}
		events = append(events, append([]byte("{"), event...))
	}
	if got := ids(t, events...); got != wantIDs {
		t.Errorf("%s", got)
	}

	resets, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for {
			conn, err := resets.Accept()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	if err := receiverOf(t, "syslog="+target(t, "tcp://"+resets.Addr().String()), o).Send(t.Context(), someRecords()); err == nil {
		t.Error("what was reset counts as taken")
	}
	_ = resets.Close()
	<-ended
	if _, err := NewRecords("syslog="+target(t, "udp://127.0.0.1:1"), options()); err == nil || !strings.Contains(err.Error(), "datagram") {
		t.Error(err)
	}
	if _, err := NewRecords("slack="+target(t, "https://x.test"), options()); err == nil || !strings.Contains(err.Error(), "ocsf, splunk") {
		t.Error(err)
	}
	if _, err := New("splunk="+target(t, "https://x.test"), options()); err == nil {
		t.Error("findings to a receiver of records")
	}
}
