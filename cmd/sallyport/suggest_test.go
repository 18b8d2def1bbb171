package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/suggest"
)

// asks sends a request through the proxy, and holds it to a status.
func asks(proxy, method, url string, status int) func() error {
	return func() error {
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{Proxy: through(proxy), DisableKeepAlives: true}}
		req, err := http.NewRequest(method, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != status {
			err = fmt.Errorf("%s %s: %s, want %d: %s", method, url, resp.Status, status, body)
		}
		return err
	}
}

// TestSuggest goes round once with the real programs: what `sallyport up` closed is suggested, written where it reads, and let through; then what nobody
// allowed is closed, a second suggestion has nothing, and an unused one is told.
func TestSuggest(t *testing.T) {
	programs := upPrograms(t)
	server := upServer(t)
	dir, data := programs.dir(t), filepath.Join(programs.dir(t), "data")
	names := upNameServer(t, map[string]string{"good.test.": "127.0.0.1", "other.test.": "127.0.0.1"})
	up := programs.start(t, "up", dir, "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", "127.0.0.1:0", "--dns-server", names)
	up.says(t, "sallyport: ready")
	proxy := up.proxy(t)
	good := fmt.Sprintf("http://good.test:%d", server)
	seen := []struct{ method, path string }{{"GET", "/users/1"}, {"GET", "/users/22"}, {"POST", "/orders"}}
	for _, s := range seen {
		upEventually(t, "a host that nobody registered", asks(proxy, s.method, good+s.path, 403))
	}
	upEventually(t, "a log that is there, of which nothing is suggested unasked", func() error {
		out, err := programs.run(t, "suggest", "--up", dir, "--data", data)
		if err != nil || !strings.Contains(out, "nothing is suggested") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	var text string
	upEventually(t, "a suggestion for all that was tried", func() error {
		out, err := programs.run(t, "suggest", "--up", dir, "--data", data, "--denied")
		if text = out; err != nil || !strings.Contains(out, "/users/*") || !strings.Contains(out, "methods: [POST]") || !strings.Contains(out, "hosts: [good.test]") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	file := filepath.Join(dir, "suggested.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := programs.run(t, "lint", file); err != nil {
		t.Errorf("lint: %v\n%s\n%s", err, out, text)
	}
	for _, s := range seen {
		upEventually(t, "what was suggested", asks(proxy, s.method, good+s.path, 200))
	}
	if err := asks(proxy, "POST", good+"/users/1", 403)(); err != nil {
		t.Error(err)
	}
	if err := asks(proxy, "GET", good+"/users/333", 200)(); err != nil {
		t.Error(err)
	}
	upEventually(t, "that what is allowed needs nothing", func() error {
		out, err := programs.run(t, "suggest", "--up", dir, "--data", data, "-o", "diff")
		if err != nil || !strings.Contains(out, "nothing is suggested") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	t.Run("a method more", func(t *testing.T) {
		upEventually(t, "a changed policy", func() error {
			out, err := programs.run(t, "suggest", "--up", dir, "--data", data, "-o", "diff", "--denied")
			if err != nil || !strings.Contains(out, "--- in force: EgressPolicy default/sallyport-up") || !strings.Contains(out, "+      methods: [POST]") {
				return fmt.Errorf("%w\n%s", err, out)
			}
			return nil
		})
	})
	t.Run("unused", func(t *testing.T) {
		entry := fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: unused, namespace: default}\nspec:\n  hosts: [other.test]\n  resolution: DNS\n  ports: [{number: %d, name: http, protocol: HTTP}]\n", server)
		if err := os.WriteFile(filepath.Join(dir, "unused.yaml"), []byte(entry), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := programs.run(t, "suggest", "--up", dir, "--data", data, "--unused", "90d", "-o", "json")
		var d suggest.Document
		if err != nil || json.Unmarshal([]byte(out), &d) != nil || len(d.Suggestions) != 1 {
			t.Fatalf("%v\n%s", err, out)
		}
		if s := d.Suggestions[0]; s.Action != "remove" || s.Name != "unused" || !strings.Contains(strings.Join(d.Notes, "\n"), "less than the 90 days") {
			t.Errorf("%+v", d)
		}
	})
	t.Run("wrong calls", func(t *testing.T) {
		for want, args := range map[string][]string{
			"where is the configuration":  {},
			"give one of them":            {"--up", dir, "--config-dir", dir},
			"no such directory":           {"--up", dir + "/none"},
			"--since":                     {"--up", dir, "--since", "yesterday"},
			"--from":                      {"--up", dir, "--from", "a/b/c"},
			"--by \"pod\"":                {"--up", dir, "--by", "pod"},
			"--mode":                      {"--up", dir, "--mode", "observe"},
			"-o \"xml\"":                  {"--up", dir, "-o", "xml"},
			"--siblings 1":                {"--up", dir, "--siblings", "1"},
			"leave --from out":            {"--up", dir, "--unused", "90d", "--from", "default"},
			"--expires \"2001-01-01\"":    {"--up", dir, "--expires", "2001-01-01"},
			"unexpected argument":         {"--up", dir, "x"},
			"--up and --kubeconfig":       {"--up", dir, "--kubeconfig", "x"},
			"--limit 0: must be at least": {"--up", dir, "--limit", "0"},
		} {
			out, err := programs.run(t, append([]string{"suggest", "--data", data}, args...)...)
			if code := exitStatus(err); code != exitUsage || !strings.Contains(out, want) {
				t.Errorf("%v: exit code %d, want %q: %s", args, code, want, out)
			}
		}
		out, err := programs.run(t, "suggest", "--data", data, "--up", dir, "--from", "shop/nobody")
		if code := exitStatus(err); code != exitFailed || !strings.Contains(out, "the log has nothing of it") {
			t.Errorf("exit code %d: %s", code, out)
		}
	})
}
