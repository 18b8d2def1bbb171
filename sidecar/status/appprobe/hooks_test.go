package appprobe

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/e2e/freeport"
)

// serve gives the URL of a server of the probes.
func serve(t *testing.T, text string) string {
	t.Helper()
	probes, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(Handler(probes, netip.MustParseAddr("127.0.0.1"), slog.New(slog.DiscardHandler)))
	t.Cleanup(s.Close)
	return s.URL
}

// asKubelet asks as a kubelet does; 0 is for a connection that ended without an answer, the one thing that a kubelet takes for a hook that failed.
func asKubelet(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if errors.Is(err, io.EOF) {
		return 0
	}
	if err != nil {
		t.Error(err)
		return -1
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

const (
	hookPath   = "/app-lifecycle/web/prestopz"
	secretPath = hookPath + "/SECRET"
)

// TestHooks: a kubelet hears of a hook what it would have heard of the app.
func TestHooks(t *testing.T) {
	app := httptest.NewServer(application(t))
	defer app.Close()
	port := portOf(t, app.URL)
	closed, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	headers := `"httpHeaders":[{"name":"X-Hook","value":"yes"},{"name":"authorization","value":"Bearer x"}]`
	for _, c := range []struct {
		name, get string
		want      int
	}{
		{"done", fmt.Sprintf(`{"path":"/teapot","port":%d}`, port), 418},
		{"refused by the app", fmt.Sprintf(`{"path":"/ok","port":%d}`, port), 400},
		{"nobody there", fmt.Sprintf(`{"port":%d}`, closed), 0},
		{"the app hangs up", fmt.Sprintf(`{"path":"/hangup","port":%d}`, port), 0},
		{"the app ends before it said all", fmt.Sprintf(`{"path":"/short","port":%d}`, port), 200},
		{"redirect for ever", fmt.Sprintf(`{"path":"/round","port":%d}`, port), 0},
		{"HTTPS to an app of HTTP", fmt.Sprintf(`{"path":"/unauthorized","port":%d,"scheme":"HTTPS",%s}`, port, headers), 200},
		{"HTTPS, nobody there", fmt.Sprintf(`{"port":%d,"scheme":"HTTPS"}`, closed), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, path := range []string{hookPath, secretPath} {
				if got := asKubelet(t, serve(t, fmt.Sprintf(`{"%s":{"httpGet":%s,"timeoutSeconds":60}}`, path, c.get))+path); got != c.want {
					t.Errorf("%s: %d, want %d", path, got, c.want)
				}
			}
		})
	}
	t.Run("not listed", func(t *testing.T) {
		at := serve(t, fmt.Sprintf(`{"%s":{"httpGet":{"path":"/teapot","port":%d}}}`, secretPath, port))
		if got := asKubelet(t, at+hookPath); got != 0 {
			t.Errorf("%d", got)
		}
		if got := asKubelet(t, at+secretPath); got != 418 {
			t.Errorf("with what nobody knows: %d", got)
		}
	})
}

// TestHooksTakeTheirTime: a kubelet waits for a postStart hook however long it takes, and ends what it waited for long enough.
func TestHooksTakeTheirTime(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hook" {
			<-r.Context().Done()
			return
		}
		close(asked)
		<-goOn
	}))
	defer app.Close()
	port := portOf(t, app.URL)
	at := serve(t, fmt.Sprintf(`{"%s":{"httpGet":{"path":"/hook","port":%[2]d},"timeoutSeconds":1},"/app-health/web/livez":{"httpGet":{"port":%[2]d},"timeoutSeconds":1}}`, secretPath, port))
	got := make(chan int)
	go func() { got <- asKubelet(t, at+secretPath) }()
	<-asked
	if late := asKubelet(t, at+"/app-health/web/livez"); late != http.StatusServiceUnavailable { // it began later, and its time is over
		t.Errorf("the probe: %d", late)
	}
	close(goOn)
	if status := <-got; status != http.StatusOK {
		t.Errorf("the hook: %d", status)
	}
}
