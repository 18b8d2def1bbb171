package story

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// appPrincipal is the app's identity in its certificate.
const appPrincipal = "spiffe://cluster.local/ns/default/sa/app"

// auditWithin is how long a record may take from the proxy to the store, on a machine with much else to do.
const auditWithin = time.Minute

// want is a record that the audit log must hold. Empty fields say nothing.
type want struct {
	what     string // in the story's words
	dns      bool   // it is about a name that was asked for, not about a connection
	host     string
	urlPath  string
	status   uint32
	verdict  record.Verdict
	path     string
	reporter string
	cluster  string // its beginning
	protocol string
	rule     string // of the policy that decided
	from     string // the workload's identity
	after    time.Time
}

// expect remembers a record for the last step, which looks for all of them.
func (s *Scene) expect(w want) want {
	w.after = s.stepBegan
	if !s.Namespaced() {
		w.reporter, w.path, w.cluster = "", "", "" // one proxy without identities stands for both
	}
	s.wants = append(s.wants, w)
	return w
}

// fits says whether the record is the one wanted, workload included.
func (w want) fits(r record.Record) bool {
	return r.Host == w.host && (r.Class == record.DNS) == w.dns && r.Verdict == w.verdict && !r.Time.Before(w.after) &&
		(w.urlPath == "" || r.URLPath == w.urlPath) &&
		(w.status == 0 || r.Status == w.status) &&
		(w.path == "" || r.Path == w.path) &&
		(w.reporter == "" || r.Reporter == w.reporter) &&
		strings.HasPrefix(r.Cluster, w.cluster) &&
		(w.protocol == "" || r.Protocol == w.protocol) &&
		(w.rule == "" || r.DecidedBy.Kind == "EgressPolicy" && r.DecidedBy.Rule == w.rule) &&
		(w.from == "" || r.Workload.Principal == w.from)
}

// String is for messages.
func (w want) String() string {
	return fmt.Sprintf("%s (host %s, path %q, %s, by %q, reported by %q, from %s)", w.what, w.host, w.urlPath, w.verdict, w.path, w.reporter, w.from)
}

// audited waits until the audit log holds the record, and gives it.
func (s *Scene) audited(ctx context.Context, w want) (found record.Record, err error) {
	w.from = s.app.principal
	err = world.Within(ctx, auditWithin, func() error {
		records, err := s.auditRecords(ctx, "--host", w.host)
		if err != nil {
			return err
		}
		for _, r := range records {
			if w.fits(r) {
				found = r
				return nil
			}
		}
		return fmt.Errorf("the audit log has no record of %s; it has %s", w, summary(records))
	})
	return found, err
}

// auditRecords asks the log for what happened since the scene was set.
func (s *Scene) auditRecords(ctx context.Context, flags ...string) ([]record.Record, error) {
	args := append([]string{"audit", "query", "--data", s.dataDir(), "--since", "1h", "--limit", "100000", "-o", "json"}, flags...)
	out, err := s.sallyport(ctx, args...)
	if err != nil {
		return nil, err
	}
	var records []record.Record
	if err := json.Unmarshal(out, &records); err != nil {
		return nil, fmt.Errorf("`audit query -o json` printed %s: %w", excerpt(string(out)), err)
	}
	return records, nil
}

// line shows a record in the evidence.
func line(r record.Record) string {
	b := fmt.Sprintf("audit: %s %s", r.Verdict, r.Host)
	if r.Path != "" {
		b += " by " + r.Path
	}
	if r.Workload.Principal != "" {
		b += ", " + r.Workload.Principal
	}
	return b + ", said by the " + r.Reporter
}

// summary lists the last few records.
func summary(records []record.Record) string {
	if len(records) == 0 {
		return "none for this host"
	}
	const most = 6
	var lines []string
	for _, r := range records[max(0, len(records)-most):] {
		lines = append(lines, fmt.Sprintf("{%s %s path=%s by=%s reporter=%s cluster=%s status=%d url=%s principal=%s}",
			r.Verdict, r.Host, r.Path, r.Protocol, r.Reporter, r.Cluster, r.Status, r.URLPath, r.Workload.Principal))
	}
	return fmt.Sprintf("%d records, among them %s", len(records), strings.Join(lines, " "))
}
