package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestTellWithoutServer: what is decided while no server runs is in the log all the same; what is no word of review is not.
func TestTellWithoutServer(t *testing.T) {
	log := &auditOrigin{data: auditLog(t)}
	if err := log.tell(t.Context(), record.Record{Action: "granted", Actor: "ann"}); err == nil {
		t.Error("anything is taken")
	}
	if err := log.tell(t.Context(), record.Record{Action: "approved", Actor: "ann", ActorBy: record.ByToken, Reason: "OPS-7", Host: "a.test", Verdict: record.Allowed}); err != nil {
		t.Fatal(err)
	}
	out, _, err := audit(t, log.data, "query", "-o", "json", "class:action")
	if err != nil {
		t.Fatal(err)
	}
	var got []record.Record
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 || got[0].Actor != "ann" || got[0].ActorBy != record.BySystem || got[0].Verdict != "" || got[0].Host != "a.test" {
		t.Errorf("%s, %v", out, err)
	}
	if out, _, err := audit(t, log.data, "query", "-o", "ocsf", "class:action"); err != nil || len(out) == 0 {
		t.Errorf("%q, %v", out, err)
	}
}

// TestNoWordWithALake: where nothing can be recorded, nothing is decided.
func TestNoWordWithALake(t *testing.T) {
	f := &reviewFlags{decisions: t.TempDir()}
	f.log.lake.where = t.TempDir()
	var bad program.UsageError
	if _, err := f.decide(reviewRejectCommand(), "b9dd30d8802c", "rejected", time.Time{}, nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), "--lake") {
		t.Error(err)
	}
	if err := f.log.tell(t.Context(), record.Record{Action: "approved"}); err == nil {
		t.Error("a lake takes words")
	}
}
