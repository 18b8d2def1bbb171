package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// upEntries is a directory with one good file and one that is not.
var upEntries = map[string]string{
	"broken.yaml": "this: [is broken",
	"good.yaml": `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: good, namespace: default}
spec:
  hosts: [%s]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: %d, name: http, protocol: HTTP}]
`,
}

// TestUp lives through what happens to `sallyport up` on somebody's machine: with real processes, as an ordinary user
// without a home where the test is root.
func TestUp(t *testing.T) {
	programs := upPrograms(t)
	server := upServer(t)
	dir := programs.dir(t)
	for name, content := range upEntries {
		if strings.Contains(content, "%s") {
			content = fmt.Sprintf(content, "good.test, private.test", server)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(programs.dir(t), "data")
	names := upNameServer(t, map[string]string{"good.test.": "127.0.0.1", "private.test.": "10.255.0.1"})
	up := programs.start(t, "up", dir, "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", "127.0.0.1:0", "--dns-server", names)
	up.says(t, "sallyport: ready")
	for _, want := range []string{"broken.yaml:1", "may resolve to loopback"} {
		up.says(t, want)
	}
	proxy, good := up.proxy(t), fmt.Sprintf("http://good.test:%d/", server)
	upEventually(t, "the good file's host", answers(proxy, good, 200))
	upEventually(t, "a host that nobody registered", answers(proxy, "http://other.test/", 403))

	t.Run("a private address is refused and recorded", func(t *testing.T) {
		if err := answers(proxy, fmt.Sprintf("http://private.test:%d/", server), 503)(); err != nil {
			t.Error(err)
		}
		upEventually(t, "the record", func() error {
			out, err := programs.run(t, "audit", "query", "--data", data, "--host", "private.test", "-o", "json")
			if err != nil || !strings.Contains(out, `"class": "dns"`) && !strings.Contains(out, `"class":"dns"`) || !strings.Contains(out, "10.255.0.1") {
				return fmt.Errorf("%s %w", out, err)
			}
			return nil
		})
	})
	t.Run("wrong calls", func(t *testing.T) {
		for want, args := range map[string][]string{
			"another sallyport up":  {dir, "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", ""},
			"something listens":     {dir, "--data", data + "2", "--proxy-addr", proxy},
			`--console-addr "`:      {dir, "--data", data + "2", "--proxy-addr", "127.0.0.1:0", "--console-addr", proxy},
			"--dns-server":          {dir, "--data", data + "2", "--proxy-addr", "127.0.0.1:0", "--console-addr", "", "--dns-server", "localhost"},
			"--allow-private":       {dir, "--data", data + "2", "--proxy-addr", "127.0.0.1:0", "--console-addr", "", "--allow-private", "a..b"},
			"it is a file":          {os.DevNull, "--data", data + "2"},
			"no such directory":     {dir + "/none", "--data", data + "2"},
			"without a home folder": {dir, "--proxy-addr", "127.0.0.1:0", "--console-addr", ""},
			"got 0 arguments":       {},
			"--mesh-config":         {dir, "--mesh-config"},
		} {
			out, err := programs.run(t, append([]string{"up"}, args...)...)
			if code := exitStatus(err); code != exitUsage || !strings.Contains(out, want) {
				t.Errorf("%v: exit code %d: %s", args, code, out)
			}
		}
	})
	for _, victim := range []string{"envoy", "sallyport-agent", "sallyport"} {
		t.Run("kill -9 of "+victim, func(t *testing.T) {
			before := up.below(t)[victim]
			if len(before) != 1 {
				t.Fatalf("%d processes", len(before))
			}
			if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			upEventually(t, "a new one", func() error {
				if now := up.below(t)[victim]; len(now) != 1 || now[0] == before[0] {
					return fmt.Errorf("%s: %v, was %v", victim, now, before)
				}
				return nil
			})
			upEventually(t, "traffic", answers(proxy, good, 200))
			path := fmt.Sprintf("after-%s-%d", victim, before[0])
			if err := answers(proxy, good+path, 200)(); err != nil {
				t.Error(err)
			}
			upEventually(t, "records", func() error {
				out, err := programs.run(t, "audit", "query", "--data", data, "--host", "good.test", "-o", "json")
				if err != nil || !strings.Contains(out, path) {
					return fmt.Errorf("no record of %s (%w)", path, err)
				}
				return nil
			})
		})
	}
	all := up.below(t)
	if err := up.end(t, os.Interrupt); err != nil {
		t.Errorf("ended with %v", err)
	}
	upEventually(t, "nobody to be left behind", func() error { // who is killed, with whoever started him, is gone in his own time
		for name, pids := range all {
			for _, pid := range pids {
				if syscall.Kill(pid, 0) == nil {
					return fmt.Errorf("%s (%d) is", name, pid)
				}
			}
		}
		return nil
	})
	if err := answers(proxy, good, 200)(); err == nil {
		t.Error("somebody still serves")
	}
}

func TestUpWarnsOfAProxyForEverybody(t *testing.T) {
	programs := upPrograms(t)
	up := programs.start(t, "up", programs.dir(t), "--data", filepath.Join(programs.dir(t), "data"), "--proxy-addr", "0.0.0.0:0", "--console-addr", "")
	up.says(t, "warning: everybody who reaches")
	up.says(t, "sallyport: ready")
	if err := up.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// answers tells whether a URL is answered with a status through the proxy.
func answers(proxy, target string, status int) func() error {
	return func() error {
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{Proxy: through(proxy), DisableKeepAlives: true}}
		resp, err := client.Get(target)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			return fmt.Errorf("%s: %s, want %d", target, resp.Status, status)
		}
		return nil
	}
}

// upServer is a web server on loopback; it gives its port.
func upServer(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "hello")
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().(*net.TCPAddr).Port
}
