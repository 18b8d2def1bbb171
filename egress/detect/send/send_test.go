package send

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/detect"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var now = time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)

// secret is a part of URLs that nobody may see.
const secret = "T00/B00/XXXXsecret"

func findings() []detect.Finding {
	return []detect.Finding{
		{ID: "beacon-1", Detection: "beacon", Title: "Connections at regular intervals", Severity: detect.High, Attack: []string{"T1071"}, Namespace: "shop", Workload: "cart",
			Host: "c2.test", Port: 443, First: now.Add(-time.Hour), Last: now, Count: 12, Score: 0.9, Evidence: map[string]any{"every_seconds": 300}},
		{ID: "feed-1", Detection: "feed", Title: "A domain of the feed", Severity: detect.Low, Workload: "w", Host: "<!channel> `x` \x1b[31m\n<http://evil.test|ok>&", First: now, Last: now, Count: 1},
	}
}

func options() Options {
	return Options{Repeat: 24 * time.Hour, Now: func() time.Time { return now }, Timeout: 5 * time.Second, Pause: time.Millisecond}
}

func target(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func sink(t *testing.T, target string, o Options) Sink {
	t.Helper()
	s, err := New(target, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// taken is a request that a server got.
type taken struct {
	path, auth, kind string
	body             []byte
}

// server answers with the statuses in their order, the last one for ever.
func server(t *testing.T, statuses ...int) (*httptest.Server, chan taken) {
	t.Helper()
	got := make(chan taken, 100)
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- taken{r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body}
		status := statuses[min(n, len(statuses)-1)]
		n++
		if status/100 == 3 {
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s, got
}

func TestWebhook(t *testing.T) {
	s, got := server(t, 200)
	file := target(t, "# where", s.URL+"/"+secret, "Authorization: Bearer abc")
	if err := sink(t, "webhook="+file, options()).Send(t.Context(), findings()); err != nil {
		t.Fatal(err)
	}
	request := <-got
	var message struct {
		Source   string
		Sent     time.Time
		Findings []detect.Finding
	}
	if err := json.Unmarshal(request.body, &message); err != nil {
		t.Fatal(err)
	}
	if request.path != "/"+secret || request.auth != "Bearer abc" || request.kind != "application/json" || message.Source != "sallyport" || !message.Sent.Equal(now) ||
		len(message.Findings) != 2 || message.Findings[0].Severity != detect.High || message.Findings[1].Host != findings()[1].Host {
		t.Errorf("%+v %+v", request, message)
	}
}

func TestSlack(t *testing.T) {
	s, got := server(t, 200)
	many := findings()
	for i := range 15 {
		f := many[0]
		f.Workload = fmt.Sprint("w", i)
		many = append(many, f)
	}
	if err := sink(t, "slack="+target(t, s.URL), options()).Send(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	var message struct{ Text string }
	if err := json.Unmarshal((<-got).body, &message); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"*Connections at regular intervals* (beacon, high): 16\n", "• `shop/cart` → `c2.test`, 12 times, the last 2026-03-18 12:00 UTC\n", "… and 6 more\n",
		"*A domain of the feed* (feed, low): 1\n", "`&lt;!channel&gt; 'x' \\x1b[31m\\n&lt;http://evil.test|ok&gt;&amp;`"} {
		if !strings.Contains(message.Text, want) {
			t.Errorf("no %q in %s", want, message.Text)
		}
	}
}

func TestAlertmanager(t *testing.T) {
	s, got := server(t, 200)
	if err := sink(t, "alertmanager="+target(t, s.URL+"/am/"), options()).Send(t.Context(), findings()); err != nil {
		t.Fatal(err)
	}
	request := <-got
	var alerts []alert
	if err := json.Unmarshal(request.body, &alerts); err != nil {
		t.Fatal(err)
	}
	a := alerts[0]
	if request.path != "/am/api/v2/alerts" || len(alerts) != 2 || a.Labels["alertname"] != "beacon" || a.Labels["workload"] != "cart" || a.Labels["port"] != "443" ||
		!a.EndsAt.Equal(now.Add(24*time.Hour)) || !a.StartsAt.Equal(now.Add(-time.Hour)) || a.Annotations["evidence"] != `{"every_seconds":300}` {
		t.Errorf("%s %+v", request.path, a)
	}
	if _, has := alerts[1].Labels["namespace"]; has {
		t.Error("an empty label")
	}
}

func TestOTLP(t *testing.T) {
	s, got := server(t, 503, 200)
	file := target(t, s.URL+"/v1/logs", "Authorization: Bearer abc")
	if err := sink(t, "otlp="+file, options()).Send(t.Context(), findings()); err != nil {
		t.Fatal(err)
	}
	<-got // the first try
	request := <-got
	var message collogs.ExportLogsServiceRequest
	if err := proto.Unmarshal(request.body, &message); err != nil {
		t.Fatal(err)
	}
	records := message.ResourceLogs[0].ScopeLogs[0].LogRecords
	text := fmt.Sprint(records[0])
	if request.path != "/v1/logs" || request.auth != "Bearer abc" || len(records) != 2 || !strings.Contains(text, "shop/cart → c2.test:443, 12 times") || records[0].SeverityText != "high" {
		t.Errorf("%s %s", request.path, text)
	}
	for _, want := range []string{"sallyport.detection", "server.address", "every_seconds"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// TestFailures: what fails is tried again where that helps, says so otherwise, and never tells the URL.
func TestFailures(t *testing.T) {
	for _, kind := range []string{"webhook", "slack", "alertmanager", "otlp"} {
		for _, tt := range []struct {
			statuses []int
			tries    int
			want     string
		}{
			{[]int{500, 429, 200}, 3, ""},
			{[]int{503}, tries, "503"},
			{[]int{403, 200}, 1, "403"},
			{[]int{302, 200}, 1, "302"},
		} {
			if kind == "otlp" && tt.statuses[0] != 503 { // its client's own judgement is not asked: all is tried again
				continue
			}
			s, got := server(t, tt.statuses...)
			err := sink(t, kind+"="+target(t, s.URL+"/"+secret+"?token="+secret), options()).Send(t.Context(), findings())
			if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), kind) || !strings.Contains(err.Error(), tt.want) && kind != "otlp") {
				t.Errorf("%s %v: %v", kind, tt.statuses, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s tells the secret: %v", kind, err)
			}
			if len(got) != tt.tries {
				t.Errorf("%s %v: %d tries", kind, tt.statuses, len(got))
			}
		}
		closed, _ := server(t, 200)
		closed.Close()
		err := sink(t, kind+"="+target(t, closed.URL+"/"+secret), options()).Send(t.Context(), findings())
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s, closed: %v", kind, err)
		}
	}
}

// TestSlow: a side that takes the connection and says nothing holds nobody up for longer than the time that there is.
func TestSlow(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for kind, scheme := range map[string]string{"webhook": "http", "otlp": "http", "syslog": "tls"} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := sink(t, kind+"="+target(t, scheme+"://"+l.Addr().String()), options()).Send(ctx, findings()); err == nil {
			t.Errorf("%s: taken", kind)
		}
		cancel()
	}
}

// TestTLS: who is not vouched for gets nothing.
func TestTLS(t *testing.T) {
	got := make(chan bool, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got <- true }))
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	file := target(t, s.URL)
	if err := sink(t, "webhook="+file, options()).Send(t.Context(), findings()); err == nil || !strings.Contains(err.Error(), "certificate") || len(got) > 0 {
		t.Error(err)
	}
	o := options()
	o.CAFile = roots
	if err := sink(t, "webhook="+file, o).Send(t.Context(), findings()); err != nil || len(got) != 1 {
		t.Error(err)
	}
}

var message5424 = regexp.MustCompile(`^<(\d+)>1 2026-03-18T12:00:00\.000000Z \S+ sallyport \d+ (\S+) - (\{.*\})$`)

// readSyslog checks a message, and gives its finding.
func readSyslog(t *testing.T, message string) (f detect.Finding) {
	t.Helper()
	m := message5424.FindStringSubmatch(message)
	if m == nil {
		t.Fatalf("%q", message)
	}
	if err := json.Unmarshal([]byte(m[3]), &f); err != nil || f.Detection != m[2] {
		t.Fatalf("%q: %v", message, err)
	}
	if pri, _ := strconv.Atoi(m[1]); pri != 13*8+severities[f.Severity] {
		t.Errorf("priority %d", pri)
	}
	return f
}

func TestSyslogStreams(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer web.Close()
	o := options()
	o.CAFile = target(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	for _, scheme := range []string{"tcp", "tls"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if scheme == "tls" {
			l = tls.NewListener(l, &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12})
		}
		read := make(chan []string, 1)
		go func() {
			defer close(read)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			var all []string
			for r := bufio.NewReader(conn); ; {
				length, err := r.ReadString(' ')
				if err != nil {
					break
				}
				n, _ := strconv.Atoi(strings.TrimSpace(length))
				text := make([]byte, n)
				if _, err := io.ReadFull(r, text); err != nil {
					break
				}
				all = append(all, string(text))
			}
			read <- all
		}()
		if err := sink(t, "syslog="+target(t, scheme+"://"+l.Addr().String()), o).Send(t.Context(), findings()); err != nil {
			t.Fatal(err)
		}
		all := <-read
		if len(all) != 2 || readSyslog(t, all[0]).ID != "beacon-1" || readSyslog(t, all[1]).Host != findings()[1].Host {
			t.Errorf("%s: %q", scheme, all)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSyslogDatagrams(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	long := findings()
	long[0].Evidence["much"] = strings.Repeat("x", 3000)
	if err := sink(t, "syslog="+target(t, "udp://"+conn.LocalAddr().String()), options()).Send(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"beacon-1", "feed-1"} {
		buffer := make([]byte, 1<<16)
		n, _, err := conn.ReadFrom(buffer)
		if err != nil || n > maxDatagram {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if f := readSyslog(t, string(buffer[:n])); f.ID != id {
			t.Errorf("%+v", f)
		}
	}
}

func TestTargets(t *testing.T) {
	bad := target(t, "ftp://"+secret)
	for text, want := range map[string]string{
		"webhook":                            "write KIND=FILE; KIND is one of webhook, slack",
		"pager=" + bad:                       "write KIND=FILE",
		"webhook=/none/such":                 "no such file",
		"webhook=" + bad:                     "line 1 is not the URL of a webhook: write it like https://HOST/PATH, or with http://",
		"syslog=" + bad:                      "write it like tls://HOST:6514, or with tcp:// or udp://",
		"webhook=" + target(t, ""):           "is empty",
		"otlp=" + target(t, "http://x", "y"): "line 2 is no header",
	} {
		if _, err := New(text, options()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
	o := options()
	for file, want := range map[string]string{"/none/such": "no such file", bad: "holds no certificate"} {
		o.CAFile = file
		if _, err := New("webhook="+target(t, "https://x.test"), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
