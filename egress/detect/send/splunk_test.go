package send

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/detect/send/sendtest"
)

func newIndexer(t *testing.T, asks int, settle time.Duration) (*sendtest.Indexer, *Records) {
	t.Helper()
	x := &sendtest.Indexer{Asks: asks}
	s := httptest.NewServer(x)
	t.Cleanup(func() {
		s.Close()
		for _, what := range x.Trouble() {
			t.Error(what)
		}
	})
	o := options()
	o.Settle = settle
	return x, receiverOf(t, "splunk="+target(t, s.URL+"/services/collector/event?index=mesh", "Authorization: "+sendtest.Authorization), o)
}

// TestAcknowledged: what the collector answered with a number is taken when that is indexed, and not before.
func TestAcknowledged(t *testing.T) {
	x, r := newIndexer(t, 2, time.Minute)
	for seq := range uint64(3) {
		records := someRecords()
		records[0].Seq, records[1].Seq = 10*seq, 10*seq+1
		if err := r.Send(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	if !r.Waits() || len(x.Indexed()) != 0 {
		t.Errorf("it waits: %t; indexed before it was asked: %v", r.Waits(), x.Indexed())
	}
	if err := r.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(x.Indexed()) != 6 || r.Waits() {
		t.Errorf("indexed: %v, it waits: %t", x.Indexed(), r.Waits())
	}
	if err := r.Settle(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNotAcknowledged: what a collector forgot, and what it counts anew, is not taken.
func TestNotAcknowledged(t *testing.T) {
	x, r := newIndexer(t, 0, 4*time.Second) // what is not acknowledged is waited for so long
	send := func() {
		t.Helper()
		if err := r.Send(t.Context(), someRecords()); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(want string) {
		t.Helper()
		if err := r.Settle(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%v, want %s", err, want)
		}
		if r.Waits() {
			t.Error("it waits for what has to be sent again")
		}
	}
	send()
	x.Crash()
	fails("1 of 1 batches were not acknowledged")
	send()
	x.Crash()
	send() // with the number of the one before
	fails("one number to two batches")
	send()
	if err := r.Settle(t.Context()); err != nil || x.Indexed()["p/1/7"] != 1 {
		t.Errorf("%v, %v", x.Indexed(), err)
	}
}

// TestAcknowledgesNothing: where acknowledgement is off, and of other kinds, nothing is waited for; where it is on, the path has to be known.
func TestAcknowledgesNothing(t *testing.T) {
	off := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"text":"Success","code":0}`) }))
	defer off.Close()
	for _, kind := range []string{"splunk", "ocsf"} {
		r := receiverOf(t, kind+"="+target(t, off.URL+"/in"), options())
		if err := r.Send(t.Context(), someRecords()); err != nil || r.Waits() || r.Settle(t.Context()) != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	on := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"text":"Success","code":0,"ackId":0}`) }))
	defer on.Close()
	r := receiverOf(t, "splunk="+target(t, on.URL+"/in"), options())
	if err := r.Send(t.Context(), []record.Record{{Proxy: "p", Epoch: 1, Seq: 1, Time: now, Class: record.HTTP}}); err == nil || !strings.Contains(err.Error(), "/services/collector") {
		t.Error(err)
	}
	// An answer that breaks off may have had a number.
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"text":"Success","code":0`)
	}))
	defer cut.Close()
	if err := receiverOf(t, "splunk="+target(t, cut.URL+"/services/collector/event"), options()).Send(t.Context(), someRecords()); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Error(err)
	}
	// Whoever answers what is no acknowledgement has taken nothing.
	for _, body := range []string{"<html>", `{}`, `{"acks":{"0":false,"x":true,"-1":true}}`} {
		odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/ack") {
				fmt.Fprint(w, body)
				return
			}
			fmt.Fprint(w, `{"ackId":0}`)
		}))
		o := options()
		o.Settle = 50 * time.Millisecond
		r := receiverOf(t, "splunk="+target(t, odd.URL+"/services/collector/event"), o)
		if err := r.Send(t.Context(), someRecords()); err != nil || r.Settle(t.Context()) == nil {
			t.Errorf("%s: %v", body, err)
		}
		odd.Close()
	}
}
