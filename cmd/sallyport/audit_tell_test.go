package main

import (
	"encoding/json"
	"testing"

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
