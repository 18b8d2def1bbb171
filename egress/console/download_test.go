package console

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// long are records with long paths, of which a file has more than sockets hold.
func long() (out []record.Record) {
	chance := rand.New(rand.NewPCG(1, 2))
	path := make([]byte, 4000)
	for i := range path {
		path[i] = 'a' + byte(chance.IntN(26))
	}
	for n := range 6_000 {
		out = append(out, record.Record{
			Proxy: "p", Epoch: 1, Seq: uint64(n + 1), Time: noon.Add(-time.Hour), Class: record.HTTP, Verdict: record.Allowed, Host: fmt.Sprintf("h%d.test", n), URLPath: "/" + string(path),
		})
	}
	return out
}

// offered serves pages to clients of the network, whose answers have a millisecond to be written where a handler says nothing; left hears of each that is over.
func offered(t *testing.T, h http.Handler) (address string, left chan bool) {
	left = make(chan bool, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { left <- true }()
		h.ServeHTTP(w, r)
	}))
	server.Config.WriteTimeout = time.Millisecond
	server.Config.ErrorLog = nil
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), left
}

// fetch asks in HTTP/1.0, in which an answer without a length ends where its connection does.
func fetch(t *testing.T, address, path string) (net.Conn, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	return conn, response
}

// TestLargeDownloadsAreWhole: a file comes whole, however little time pages have to be written, and says how long it is.
func TestLargeDownloadsAreWhole(t *testing.T) {
	records := long()
	address, left := offered(t, served(t, records, nil))
	for format := range downloads {
		_, response := fetch(t, address, "/log."+format)
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || response.ContentLength != int64(len(text)) {
			t.Errorf("%s: %s, %d bytes of %d, %v", format, response.Status, len(text), response.ContentLength, err)
		}
		<-left
		switch format {
		case "json":
			var got []record.Record
			if err := json.Unmarshal(text, &got); err != nil || len(got) != len(records) {
				t.Errorf("%d records, %v", len(got), err)
			}
		case "csv":
			if rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll(); err != nil || len(rows) != 1+len(records) {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		}
	}
}

// TestWhoTakesNothingIsCut: who does not go on reading a file loses it, sees that it is not whole, and leaves nothing behind.
func TestWhoTakesNothingIsCut(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := stored(t, long())
	before := entries(t)
	address, left := offered(t, console(t, s, func(o *Options) { o.takeTime = 50 * time.Millisecond }))
	for range 2 * filesAtOnce {
		_, response := fetch(t, address, "/log.csv")
		<-left
		text, err := io.ReadAll(response.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(fmt.Sprint(err), "reset") || int64(len(text)) >= response.ContentLength {
			t.Errorf("%d bytes of %d, %v", len(text), response.ContentLength, err)
		}
	}
	if after := entries(t); after != before {
		t.Errorf("%d files stay of %d", after, before)
	}
}

// TestFilesHaveNoNames: a file that waits to be taken has no name any more, so that it goes with its process.
func TestFilesHaveNoNames(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := stored(t, long())
	before := entries(t)
	address, left := offered(t, console(t, s, nil))
	for format := range downloads {
		conn, response := fetch(t, address, "/log."+format)
		if now := entries(t); now != before {
			t.Errorf("%s: there are %d files, and were %d", format, now, before)
		}
		if n, err := io.Copy(io.Discard, response.Body); err != nil || n != response.ContentLength {
			t.Errorf("%s: %d bytes of %d, %v", format, n, response.ContentLength, err)
		}
		<-left
		_ = conn.Close()
	}
}

func entries(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestFilesThatAreNotMadeAreSaid: what keeps a file from being made is said in words, and nothing of it is sent.
func TestFilesThatAreNotMadeAreSaid(t *testing.T) {
	s := stored(t, scene(t))
	slow := console(t, s, func(o *Options) { o.answerTime = time.Nanosecond })
	for format := range downloads {
		if r := get(t, slow, "localhost", "/log."+format); r.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s without time: %s", format, r.Status)
		}
	}
	broken := console(t, s, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for format := range downloads {
		r := get(t, broken, "localhost", "/log."+format)
		if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusInternalServerError || strings.ContainsAny(string(text), "[]{}") {
			t.Errorf("%s of a log that is closed: %s %q", format, r.Status, text)
		}
	}
}
