package appprobe

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func portOf(t *testing.T, address string) int {
	t.Helper()
	at, err := netip.ParseAddrPort(strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	return int(at.Port())
}

// application answers as applications do, and says where it was asked from.
func application(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.RemoteAddr, "127.0.0.6:") {
			t.Errorf("asked from %s", r.RemoteAddr)
		}
		switch r.URL.Path {
		case "/ok":
			if r.Host != "shop.example" || r.Header.Get("X-Probe") != "yes" || r.URL.RawQuery != "deep=1" {
				http.Error(w, "no", http.StatusBadRequest)
			}
		case "/here":
			http.Redirect(w, r, "/teapot", http.StatusFound)
		case "/there":
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/hang":
			<-r.Context().Done()
		case "/hangup":
			panic(http.ErrAbortHandler)
		case "/short":
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusOK)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		case "/unauthorized":
			if r.Header.Get("Authorization") != "" || r.Header.Get("X-Hook") != "yes" {
				http.Error(w, "no", http.StatusBadRequest)
			}
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	})
}

func grpcServer(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, status := grpc.NewServer(), health.NewServer()
	status.SetServingStatus("sad", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(server, status)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return listener.Addr().(*net.TCPAddr).Port
}

func TestProbes(t *testing.T) {
	plain, secure := httptest.NewServer(application(t)), httptest.NewTLSServer(application(t))
	defer plain.Close()
	defer secure.Close()
	port, tlsPort, grpcPort := portOf(t, plain.URL), portOf(t, secure.URL), grpcServer(t)
	closed, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	headers := `"httpHeaders":[{"name":"host","value":"shop.example"},{"name":"X-Probe","value":"yes"}]`
	for _, c := range []struct {
		name, probe string
		want        int
	}{
		{"http", fmt.Sprintf(`{"httpGet":{"path":"/ok?deep=1","port":%d,%s}}`, port, headers), 200},
		{"https", fmt.Sprintf(`{"httpGet":{"path":"ok?deep=1","port":%d,"scheme":"HTTPS",%s}}`, tlsPort, headers), 200},
		{"its status", fmt.Sprintf(`{"httpGet":{"path":"/teapot","port":%d}}`, port), 418},
		{"redirect within", fmt.Sprintf(`{"httpGet":{"path":"/here","port":%d}}`, port), 418},
		{"redirect away", fmt.Sprintf(`{"httpGet":{"path":"/there","port":%d}}`, port), 200},
		{"redirect for ever", fmt.Sprintf(`{"httpGet":{"path":"/round","port":%d}}`, port), 503},
		{"nobody there", fmt.Sprintf(`{"httpGet":{"port":%d}}`, closed), 503},
		{"too late", fmt.Sprintf(`{"httpGet":{"path":"/hang","port":%d}}`, port), 503},
		{"tcp", fmt.Sprintf(`{"tcpSocket":{"port":%d}}`, port), 200},
		{"tcp closed", fmt.Sprintf(`{"tcpSocket":{"port":%d}}`, closed), 503},
		{"grpc", fmt.Sprintf(`{"grpc":{"port":%d}}`, grpcPort), 200},
		{"grpc not serving", fmt.Sprintf(`{"grpc":{"port":%d,"service":"sad"}}`, grpcPort), 503},
		{"grpc unknown service", fmt.Sprintf(`{"grpc":{"port":%d,"service":"none"}}`, grpcPort), 503},
		{"grpc to http", fmt.Sprintf(`{"grpc":{"port":%d},"timeoutSeconds":1}`, closed), 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			probes, err := Parse(`{"/app-health/web/livez":` + c.probe + `}`)
			if err != nil {
				t.Fatal(err)
			}
			h := Handler(probes, netip.MustParseAddr("127.0.0.1"), slog.New(slog.DiscardHandler))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/app-health/web/livez", nil))
			if w.Code != c.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.want)
			}
		})
	}
}

func TestOnlyListedPaths(t *testing.T) {
	h := Handler(Probes{}, netip.Addr{}, slog.New(slog.DiscardHandler))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/app-health/web/livez", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
}

func TestParseMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                    "must be a JSON object",
		`{"/app-health/a/livez":{"a":1}}`:       "unknown field",
		`{"/metrics":{"tcpSocket":{"port":1}}}`: "must begin with",
		`{"/app-health/a/livez":{}}`:            "write one of",
		`{"/app-health/a/livez":{"tcpSocket":{"port":1},"grpc":{"port":1}}}`:          "write one of",
		`{"/app-health/a/livez":{"tcpSocket":{"port":0}}}`:                            "port",
		`{"/app-health/a/livez":{"tcpSocket":{"port":70000}}}`:                        "port",
		`{"/app-health/a/livez":{"httpGet":{"port":1,"host":"metadata.example"}}}`:    "go to the pod itself",
		`{"/app-health/a/livez":{"httpGet":{"port":1,"scheme":"GOPHER"}}}`:            "HTTP or HTTPS",
		`{"/app-health/a/livez":{"tcpSocket":{"port":1},"timeoutSeconds":-1}}`:        "negative",
		`{"/app-health/a/livez":{"tcpSocket":{"port":1}},"/x":{"grpc":{"port":"a"}}}`: "JSON",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
	if probes, err := Parse(""); probes != nil || err != nil {
		t.Error(probes, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"/app-health/web/livez":{"httpGet":{"path":"/ok","port":80,"scheme":"HTTP"},"timeoutSeconds":3}}`)
	f.Add(`{"/app-health/web/livez":{"grpc":{"port":80}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		probes, err := Parse(text)
		if err != nil {
			return
		}
		for path, p := range probes {
			if p.HTTPGet != nil {
				h := &handler{probes: probes, pod: netip.MustParseAddr("127.0.0.1")}
				req, err := h.request(t.Context(), p.HTTPGet)
				if err == nil && req.URL.Hostname() != "127.0.0.1" {
					t.Fatalf("%s would be asked of %s", path, req.URL)
				}
			}
		}
	})
}
