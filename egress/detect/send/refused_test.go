package send

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/egress/audit/ocsf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// many are records, of which the one with the number long has a long path.
func many(n, long int) (out []record.Record) {
	for i := range n {
		r := record.Record{Proxy: "p", Epoch: 1, Seq: uint64(i), Time: now, Class: record.HTTP, Verdict: record.Allowed, Host: "a.test", Method: "GET", URLPath: "/"}
		if i == long {
			r.URLPath = "/" + strings.Repeat("x", 4000)
		}
		out = append(out, r)
	}
	return out
}

// eventsOf are the events of a message.
func eventsOf(t *testing.T, kind string, body []byte) (out []ocsf.Event) {
	t.Helper()
	read := func(b []byte) {
		var e ocsf.Event
		if err := json.Unmarshal(b, &e); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		out = append(out, e)
	}
	switch kind {
	case "ocsf":
		if err := json.Unmarshal(body, &out); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	case "splunk":
		for line := range bytes.Lines(body) {
			var e struct{ Event json.RawMessage }
			if err := json.Unmarshal(line, &e); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			read(e.Event)
		}
	case "otlp":
		var message collogs.ExportLogsServiceRequest
		if err := proto.Unmarshal(body, &message); err != nil {
			t.Error(err)
			return nil
		}
		for _, r := range message.ResourceLogs[0].ScopeLogs[0].LogRecords {
			read([]byte(r.Body.GetStringValue()))
		}
	}
	return out
}

// TestTooLargeIsDivided: a receiver that takes messages up to some size gets every record, each once, the long one with its texts cut; and is not asked
// again and again whether it takes what is too large. Of one that takes no event of a record it is told that records are missing.
func TestTooLargeIsDivided(t *testing.T) {
	const most = 6000
	for _, kind := range []string{"ocsf", "splunk", "otlp"} {
		got, refused := map[string]ocsf.Event{}, 0
		limit := most
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if len(body) > limit {
				refused++
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			for _, e := range eventsOf(t, kind, body) {
				if _, twice := got[e.Metadata.UID]; twice {
					t.Errorf("%s: %s came twice", kind, e.Metadata.UID)
				}
				got[e.Metadata.UID] = e
			}
		}))
		defer s.Close()
		r := receiverOf(t, kind+"="+target(t, s.URL+"/services/collector/event"), options())
		defer r.Close()
		if err := r.Send(t.Context(), many(100, 40)); err != nil {
			t.Fatal(kind, err)
		}
		if len(got) != 100 || refused > 20 || r.Unfit() != 0 {
			t.Errorf("%s: %d of 100 records, %d messages were refused", kind, len(got), refused)
		}
		before := refused
		if err := r.Send(t.Context(), many(200, -1)[100:]); err != nil {
			t.Fatal(kind, err)
		}
		if len(got) != 200 || refused > before+6 {
			t.Errorf("%s: %d of 200 records, of the second hundred %d messages were refused", kind, len(got), refused-before)
		}

		limit = 3000 // the long one as it is has more
		if err := r.Send(t.Context(), many(300, 250)[250:251]); err != nil {
			t.Fatal(kind, err)
		}
		if e := got["p/1/250"]; e.HTTPRequest == nil || !strings.HasPrefix(e.HTTPRequest.URL.Path, "/xxx") || r.Unfit() != 0 {
			t.Errorf("%s: the long record came as %+v", kind, e)
		}
		limit = 10
		if err := r.Send(t.Context(), many(300, -1)[299:]); err == nil || !strings.Contains(err.Error(), "413") {
			t.Errorf("%s, which takes nothing: %v", kind, err)
		}
	}
}

// TestSlowReceiversGetLess: one that does not get through with a batch in the time that there is gets smaller ones, so that it comes to an end.
func TestSlowReceiversGetLess(t *testing.T) {
	t.Parallel() // it waits for limits
	const most = 20
	o := options()
	o.Timeout = 2 * time.Second
	for _, kind := range []string{"ocsf", "splunk", "otlp"} {
		var mu sync.Mutex // a request that is given up may still be read when the next one comes
		got, tried := map[string]bool{}, []int{}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			events := eventsOf(t, kind, body)
			if mu.Lock(); len(events) > most {
				tried = append(tried, len(events))
				mu.Unlock()
				<-r.Context().Done() // it would take longer than it has
				return
			}
			defer mu.Unlock()
			tried = append(tried, len(events))
			for _, e := range events {
				got[e.Metadata.UID] = true
			}
		}))
		r := receiverOf(t, kind+"="+target(t, s.URL+"/in"), o)
		records := many(100, -1)
		for deadline := time.Now().Add(2 * time.Minute); r.Send(t.Context(), records) != nil && time.Now().Before(deadline); {
		}
		r.Close()
		s.Close()
		if len(got) != 100 || len(tried) > 30 {
			t.Errorf("%s: %d of 100 records, by messages of %v", kind, len(got), tried)
		}
	}
}

// TestSlowSyslogGetsLess is the same of a syslog server that reads so much and then no more: what lies in this machine's buffers was not taken.
func TestSlowSyslogGetsLess(t *testing.T) {
	t.Parallel() // it waits for limits
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
			if n, _ := io.CopyN(io.Discard, conn, 1<<20); n < 1<<20 {
				_ = conn.Close() // that was all
			}
		}
	}()
	o := options()
	o.Timeout = 5 * time.Second
	r := receiverOf(t, "syslog="+target(t, "tcp://"+l.Addr().String()), o)
	big := many(3000, -1) // some 9 MB
	for i := range big {
		big[i].URLPath = "/" + strings.Repeat("x", 2000)
	}
	refused := 0
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); refused++ {
		if err = r.Send(t.Context(), big); err == nil {
			break
		}
	}
	_ = l.Close()
	<-done
	if err != nil || refused == 0 {
		t.Errorf("after %d tries: %v", refused, err)
	}
}

// TestPartlyRefused: what a collector of OTLP says to have refused for good is not sent again, and counts as missed.
func TestPartlyRefused(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests++
		said, err := proto.Marshal(&collogs.ExportLogsServiceResponse{PartialSuccess: &collogs.ExportLogsPartialSuccess{RejectedLogRecords: 3, ErrorMessage: "no"}})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(said)
	}))
	defer s.Close()
	r := receiverOf(t, "otlp="+target(t, s.URL+"/v1/logs"), options())
	defer r.Close()
	if err := r.Send(t.Context(), many(10, -1)); err != nil {
		t.Error(err)
	}
	if unfit := r.Unfit(); unfit != 3 || requests != 1 {
		t.Errorf("%d count as missed, after %d requests", unfit, requests)
	}
}

// TestTargetsSayWhatTheyAre: what is wrong with a file is said in the words of what it is for.
func TestTargetsSayWhatTheyAre(t *testing.T) {
	for _, kind := range slices.Concat(Kinds, RecordKinds) {
		make := func(file string) (err error) {
			if slices.Contains(RecordKinds, kind) {
				_, err = NewRecords(kind+"="+file, options())
			} else {
				_, err = New(kind+"="+file, options())
			}
			return err
		}
		err := make(target(t, "gopher://"+secret+".test/x"))
		if err == nil || strings.Contains(err.Error(), "a kafka") || strings.Contains(err.Error(), "an ocsf") || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "like "+kinds[kind].schemes[0]+"://") {
			t.Errorf("%s: %v", kind, err)
		}
		if err := make(target(t, fmt.Sprintf("%s://h.test:1/x\n%s", kinds[kind].schemes[0], secret))); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
