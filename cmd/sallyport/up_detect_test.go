package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/egress/detect"
)

// hook is a web server that takes findings.
type hook struct {
	mu  sync.Mutex
	got map[string]int // how often, by detection and host
}

// ServeHTTP takes a message.
func (h *hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var message struct{ Findings []detect.Finding }
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range message.Findings {
		h.got[f.Detection+" "+f.Host]++
	}
}

func (h *hook) all() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.got)
}

func (h *hook) times(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got[what]
}

// TestUpDetects: what is denied in a burst through a real Envoy is found, and told to a webhook, once, although the process that
// looks is killed after it.
func TestUpDetects(t *testing.T) {
	programs := upPrograms(t)
	hook := &hook{got: map[string]int{}}
	server := httptest.NewServer(hook)
	defer server.Close()
	files := programs.dir(t)
	file := func(name, text string) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	url, feed := file("hook", server.URL+"/secret-path\n"), file("feed", "# bad ones\nlisted.test\n")
	data := filepath.Join(programs.dir(t), "data")
	flags := []string{"up", programs.dir(t), "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", "", "--dns-server", upNameServer(t, nil)}
	for _, wrong := range [][]string{
		{"--detect-send", "webhook=" + url + "-none"}, {"--detect-send", "pager=" + url}, {"--detect-every", "soon"}, {"--detect-repeat", "0"}, {"--detect-least", "bad"},
		{"--detect-only", "nope"}, {"--detect-set", "beacon.x=1"}, {"--detect-rules", url}, {"--detect-feed", url + "-none"}, {"--detect-ca", url, "--detect-send", "webhook=" + url},
	} {
		out, err := programs.run(t, append(flags, wrong...)...)
		if exitStatus(err) != exitUsage || !strings.Contains(out, "detect-") && !strings.Contains(out, "roots") || strings.Contains(out, "secret-path") {
			t.Errorf("%v: exit code %d: %s", wrong, exitStatus(err), out)
		}
	}
	up := programs.start(t, append(flags, "--detect-every", "200ms", "--detect-send", "webhook="+url, "--detect-feed", feed)...)
	up.says(t, "sallyport: ready")
	proxy := up.proxy(t)
	upEventually(t, "a denial", answers(proxy, "http://www.closed.test/", 403))
	for i := range 30 {
		if err := answers(proxy, fmt.Sprintf("http://www.closed.test/%d", i), 403)(); err != nil {
			t.Fatal(err)
		}
	}
	const burst, listed = "denied-burst www.closed.test", "feed www.listed.test"
	upEventually(t, "the finding at the webhook", func() error {
		if hook.times(burst) == 0 {
			return fmt.Errorf("it has %v", hook.all())
		}
		return nil
	})
	upEventually(t, "that it is on disk", func() error {
		text, err := os.ReadFile(filepath.Join(data, "findings.json"))
		if err != nil {
			return err
		}
		var sent map[string]map[string]any // by receiver and finding: others may have been told before
		if err := json.Unmarshal(text, &sent); err != nil {
			return err
		}
		for receiver, findings := range sent {
			for id := range findings {
				if strings.HasPrefix(receiver, "webhook=") && strings.HasPrefix(id, "denied-burst-") {
					return nil
				}
			}
		}
		return fmt.Errorf("%s", text)
	})
	before := up.below(t)["sallyport"]
	if len(before) != 1 {
		t.Fatalf("%d processes", len(before))
	}
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := answers(proxy, "http://www.listed.test/", 403)(); err != nil {
		t.Fatal(err)
	}
	upEventually(t, "the next finding, of a new process", func() error {
		if hook.times(listed) == 0 {
			return fmt.Errorf("it has %v", hook.all())
		}
		return nil
	})
	if n := hook.times(burst); n != 1 {
		t.Errorf("the burst was told %d times", n)
	}
	out, err := programs.run(t, "detect", "--data", data, "--fail-on", "medium")
	if exitStatus(err) != exitNo || !strings.Contains(out, "denied-burst") || !strings.Contains(out, "www.closed.test") {
		t.Errorf("exit code %d: %s", exitStatus(err), out)
	}
	if said := up.output(); !strings.Contains(said, "msg=finding") || strings.Contains(said, "secret-path") {
		t.Errorf("it says\n%s", said)
	}
}
