package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// upTalk is a connection through the proxy on which somebody talks, and hears again what was said.
type upTalk struct {
	what string
	net.Conn
	in   *bufio.Reader
	said int
	hear bool // it hears an answer that goes on
}

// upBusy is what a machine with much else to do may add to a promised time.
const upBusy = 15 * time.Second

func (k *upTalk) say() error {
	k.said++
	line := fmt.Sprintf("%d %s\n", k.said, strings.Repeat("x", 4000))
	_ = k.SetDeadline(time.Now().Add(time.Minute))
	if k.hear {
		_, err := k.in.ReadString('\n')
		_, _ = k.in.Discard(k.in.Buffered()) // or who is asked seldom would hear of the end late
		return err
	}
	if _, err := io.WriteString(k, line); err != nil {
		return err
	}
	heard, err := k.in.ReadString('\n')
	if err == nil && heard != line {
		err = fmt.Errorf("it said %.20q, and heard %.20q", line, heard)
	}
	return err
}

// upEcho says again what it is told, and gives its port.
func upEcho(t *testing.T, serve func(net.Conn) io.ReadWriteCloser) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				if talks := serve(c); talks != nil {
					_, _ = io.Copy(talks, talks)
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// upWriter writes files of a folder, each whole at once.
func upWriter(t *testing.T, dir string) func(name, text string) {
	return func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, ".new"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func upEntry(name, host, resolution, ports string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: default}\nspec: {hosts: [%q], location: MESH_EXTERNAL, resolution: %s, exportTo: [\".\"], ports: %s}\n",
		name, host, resolution, ports)
}

// TestUpEndsWhatIsDenied: what goes through CONNECT, an upgrade, and an answer that goes on end when an edit or a rule's end denies them, each by itself, though nobody here has a right to
// end connections. Others go on.
func TestUpEndsWhatIsDenied(t *testing.T) {
	programs := upPrograms(t)
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)
	plain := upEcho(t, func(c net.Conn) io.ReadWriteCloser { return c })
	secret := upEcho(t, func(c net.Conn) io.ReadWriteCloser {
		return tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certificate.TLS.Certificates})
	})
	web := upEcho(t, func(c net.Conn) io.ReadWriteCloser {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil && req.Header.Get("Upgrade") == "" { // an answer without end
			_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for tick := time.NewTicker(50 * time.Millisecond); err == nil; <-tick.C {
				_, err = io.WriteString(c, "5\r\nmore\n\r\n")
			}
		}
		if err != nil {
			return nil
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		return c
	})
	dir := programs.dir(t)
	write := upWriter(t, dir)
	policy := func(rules string) {
		t.Helper()
		write("policy.yaml", "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: default}\nspec: {rules: ["+rules+"]}\n")
	}
	for _, name := range []string{"one", "two"} {
		write(name+".yaml", upEntry(name, name+".test", "DNS", fmt.Sprintf("[{number: %d, name: tcp, protocol: TCP}, {number: %d, name: tls, protocol: TLS}]", plain, secret)))
		write("web-"+name+".yaml", upEntry("web-"+name, "web."+name+".test", "DNS", fmt.Sprintf("[{number: %d, name: http, protocol: HTTP}]", web)))
	}
	write("wild.yaml", upEntry("wild", "*.wild.test", "NONE", fmt.Sprintf("[{number: %d, name: tls, protocol: TLS}]", secret)))
	policy(fmt.Sprintf("{hosts: [one.test, '*.one.test', two.test, '*.two.test', '*.wild.test'], action: Allow, name: all}, {hosts: [none.test], action: Allow, expires: %q}", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	data := filepath.Join(programs.dir(t), "data")
	names := upNameServer(t, map[string]string{"one.test.": "127.0.0.1", "two.test.": "127.0.0.1", "web.one.test.": "127.0.0.1", "web.two.test.": "127.0.0.1", "any.wild.test.": "127.0.0.1"})
	up := programs.start(t, "up", dir, "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", "", "--dns-server", names)
	up.says(t, "sallyport: ready")
	proxy := up.proxy(t)

	// open opens one, once it can be.
	open := func(scheme, host string) *upTalk {
		t.Helper()
		if scheme == "ws" || scheme == "http" {
			host = "web." + host
		}
		k := &upTalk{what: scheme + "://" + host}
		port := map[string]int{"tcp": plain, "tls": secret, "ws": web, "http": web}[scheme]
		upEventually(t, k.what, func() error {
			c, err := net.Dial("tcp", proxy)
			if err != nil {
				return err
			}
			k.Conn, k.in = c, bufio.NewReader(c)
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			ask, want := fmt.Sprintf("CONNECT %s:%d HTTP/1.1\r\nHost: %[1]s:%[2]d\r\n\r\n", host, port), http.StatusOK
			switch scheme {
			case "http":
				ask = fmt.Sprintf("GET http://%s:%d/ends HTTP/1.1\r\nHost: %[1]s:%[2]d\r\n\r\n", host, port)
			case "ws":
				ask, want = fmt.Sprintf("GET http://%s:%d/chat HTTP/1.1\r\nHost: %[1]s:%[2]d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", host, port), http.StatusSwitchingProtocols
			}
			_, err = io.WriteString(c, ask)
			if err == nil {
				var resp *http.Response
				if resp, err = http.ReadResponse(k.in, &http.Request{Method: strings.Fields(ask)[0]}); err == nil && resp.StatusCode != want {
					err = errors.New(resp.Status)
				} else if err == nil && scheme == "http" {
					k.in, k.hear = bufio.NewReader(resp.Body), true
				}
			}
			if err == nil && scheme == "tls" {
				k.Conn = tls.Client(c, &tls.Config{ServerName: host, InsecureSkipVerify: true})
				k.in = bufio.NewReader(k.Conn)
			}
			if err == nil {
				err = k.say()
			}
			if err != nil {
				_ = c.Close()
			}
			return err
		})
		t.Cleanup(func() { _ = k.Close() })
		return k
	}
	goOn := func(stay []*upTalk) {
		t.Helper()
		for _, k := range stay {
			if err := k.say(); err != nil {
				t.Fatalf("%s: %v", k.what, err)
			}
		}
	}
	ends := func(since time.Time, gone, stay []*upTalk) {
		t.Helper()
		for len(gone) > 0 {
			switch err := gone[0].say(); {
			case err != nil:
				t.Logf("%s has ended after %s: %v", gone[0].what, time.Since(since).Round(time.Millisecond), err)
				gone = gone[1:]
			case time.Since(since) > 10*time.Second+upBusy:
				t.Fatalf("%s is open after %s", gone[0].what, time.Since(since))
			}
			goOn(stay)
		}
		for began := time.Now(); time.Since(began) < 3*time.Second; { // longer than it takes to end what is denied
			goOn(stay)
		}
	}
	began := time.Now()
	stay := []*upTalk{open("tcp", "two.test"), open("tls", "two.test"), open("ws", "two.test")}
	gone := []*upTalk{open("tcp", "one.test"), open("tls", "one.test"), open("ws", "one.test"), open("tls", "any.wild.test"), open("http", "one.test")}
	told := open("http", "two.test")
	goOn(append(append(gone, told), stay...))
	since, took := time.Now(), time.Since(began) // so much as before a rule's end, below
	policy("{hosts: [two.test, '*.two.test'], action: Allow, name: two}")
	ends(since, gone, append(stay, told))
	upEventually(t, "the records", func() error {
		for host, want := range map[string]int{"one.test": 2, "web.one.test": 2, "any.wild.test": 1} {
			out, err := programs.run(t, "audit", "query", "--data", data, "--host", host, "-o", "json")
			if err != nil || strings.Count(out, "ended when it was not allowed any more: denied by EgressPolicy default/list") != want {
				return fmt.Errorf("want %d that were ended: %s %w", want, out, err)
			}
		}
		return nil
	})

	end := time.Now().Add(10*time.Second + 3*took).Truncate(time.Second)
	policy(fmt.Sprintf("{hosts: [two.test], ports: [%d], action: Allow, expires: %q}, {hosts: [two.test, '*.two.test'], action: Allow, name: others}, {hosts: [one.test], action: Deny}", plain, end.UTC().Format(time.RFC3339)))
	goOn(stay)
	ending := end.UTC().Format(time.RFC3339)
	policy(fmt.Sprintf("{hosts: [two.test], ports: [%d], action: Allow, expires: %q}, {hosts: ['*.two.test'], ports: [%d], paths: [/ends], action: Allow, expires: %[2]q}, "+
		"{hosts: ['*.two.test'], ports: [%[3]d], paths: [/chat], action: Allow}, {hosts: [two.test], ports: [%[4]d], action: Allow}, {hosts: [one.test], ports: [%[1]d], action: Allow, name: again}", plain, ending, web, secret))
	stay = append(stay, open("tcp", "one.test")) // it is in force
	answer := open("http", "two.test")
	for time.Now().Before(end.Add(-time.Second)) {
		goOn(stay[1:])
		for _, k := range []*upTalk{answer, told, stay[0]} { // from its end on they may be heard no more, also in the middle of it
			if err := k.say(); err != nil && time.Now().Before(end) {
				t.Fatalf("%s: %v", k.what, err)
			}
		}
	}
	ends(end, []*upTalk{answer, told, stay[0]}, stay[1:]) // one was let through by a rule that did not end, whose place another one took
	if err := answer.say(); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an answer that was cut ends with %v", err)
	}

	since = time.Now()
	for _, name := range []string{"one.yaml", "two.yaml", "web-one.yaml", "web-two.yaml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ends(since, stay[1:], nil)
	if err := up.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}
