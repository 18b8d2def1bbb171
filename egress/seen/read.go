package seen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// Source answers SELECTs on the table records; a query.Source is one.
type Source interface {
	SQL(ctx context.Context, statement string, sink query.RowSink) error
}

// Question says what is read.
type Question struct {
	Since, Until time.Time // Until is not included
	Namespace    string    // of the workloads; "": of all
	Most         int       // so many flows are read: MaxFlows, unless it is set
}

// Read adds up the log.
func Read(ctx context.Context, s Source, q Question) (*Log, error) {
	log := &Log{Since: q.Since, Until: q.Until}
	for _, read := range []func(context.Context, Source, Question) error{log.readFlows, log.readRequests, log.readRules, log.readSummary} {
		if err := read(ctx, s, q); err != nil {
			return nil, err
		}
	}
	return log, nil
}

// Sighted adds up what says which workloads went where, and no more: for each day and sort of flow the log has that beside its records, so that what it costs does not grow with these. Days count
// whole; of a flow's requests by a method there are two paths at most, and no destinations; there are AtOnce replicas, and no names of theirs; and nothing is told beside Flows and Cut. Where a log has its records alone it is Read.
func Sighted(ctx context.Context, s Source, q Question) (*Log, error) {
	for range sightedTries {
		mark, some, err := sightedUntil(ctx, s)
		if err != nil {
			return nil, err
		}
		if !some {
			return Read(ctx, s, q)
		}
		log := &Log{Since: q.Since, Until: q.Until}
		if err := log.readSighted(ctx, s, q, mark); err != nil {
			return nil, err
		}
		if after, some, err := sightedUntil(ctx, s); err != nil || some && after.Equal(mark) {
			return log, err
		}
	}
	return Read(ctx, s, q)
}

// sightedTries is how often it is read again because the log added up more of its records meanwhile.
const sightedTries = 5

// sightedUntil is up to which moment of coming in the log has added up its records; some is false where it does not do so.
func sightedUntil(ctx context.Context, s Source) (mark time.Time, some bool, err error) {
	kept := uint64(0)
	err = s.SQL(ctx, "SELECT count(*) FROM duckdb_tables() WHERE table_name = "+query.Literal(store.SightingsTable), rows{1, func(c cells) { kept = c.number(0) }})
	if err == nil && kept > 0 {
		err = s.SQL(ctx, store.FlowsMark, rows{1, func(c cells) { mark, some = c.time(0), true }})
	}
	return mark, some, err
}

// readSighted reads what the log has added up until mark, and the records that came after.
func (l *Log) readSighted(ctx context.Context, s Source, q Question, mark time.Time) error {
	relation, condition := store.Flows(mark, q.Since, q.Until), outside
	if q.Namespace != "" {
		condition += " AND namespace = " + query.Literal(q.Namespace)
	}
	sums := fmt.Sprintf(`epoch_us(min(first)), epoch_us(max(last)), array_to_string(list_distinct(flatten(list(days))), ','),
	greatest(max(replicas), len(list_distinct(coalesce(list(pod) FILTER (pod <> ''), [])))), NULL,
	least(sum(records), %[1]d)::UBIGINT AS n, CAST(sum(bytes_sent) AS VARCHAR), CAST(sum(bytes_received) AS VARCHAR)`, uint64(math.MaxUint64))
	if err := l.takeFlows(ctx, s, q, sums, relation+" WHERE "+condition); err != nil {
		return err
	}
	if err := s.SQL(ctx, store.FlowsLeftOut(q.Since, q.Until), rows{1, func(c cells) { l.Cut[c.text(0)] = true }}); err != nil {
		return err
	}
	statement := fmt.Sprintf("SELECT %s, method, min(least_path), max(greatest_path) FROM %s WHERE %s AND protocol = 'http' GROUP BY ALL", keys, relation, condition)
	return l.takeRequests(ctx, s, statement, 2)
}

// outside are the records of what left, or tried to, by somebody who is known.
const outside = "class IN ('network', 'http', 'dns') AND coalesce(direction, '') IN ('', '" + record.Outbound + "') AND namespace <> '' AND coalesce(claim, '') = ''"

// where is a condition for the records of the window.
func (q Question) where(condition string) string {
	out := condition
	if !q.Since.IsZero() {
		out += " AND time >= " + query.Instant(q.Since)
	}
	if !q.Until.IsZero() {
		out += " AND time < " + query.Instant(q.Until)
	}
	if q.Namespace != "" {
		out += " AND namespace = " + query.Literal(q.Namespace)
	}
	return out
}

// keys are the columns that tell flows apart, but for their verdicts and protocols.
const keys = "namespace, service_account, coalesce(labels, '') AS labels, host, port, protocol, verdict, path"

// readFlows reads each namespace's flows in turn, those with the most records first: what one of them does pushes out what another one did only
// where that has more than its share.
func (l *Log) readFlows(ctx context.Context, s Source, q Question) error {
	sums := fmt.Sprintf(`epoch_us(min(time)), epoch_us(max(time)),
	list(DISTINCT epoch_us(time) // 86400000000),
	list_slice(list_sort(list(DISTINCT workload)), 1, %d),
	list_slice(list_sort(list(DISTINCT regexp_replace(destination, ':[0-9]*$', ''))), 1, %d),
	count(*) AS n, CAST(sum(bytes_sent) AS VARCHAR), CAST(sum(bytes_received) AS VARCHAR)`, MaxReplicas, MaxDestinations)
	return l.takeFlows(ctx, s, q, sums, "records WHERE "+q.where(outside))
}

// takeFlows reads flows of a relation.
func (l *Log) takeFlows(ctx context.Context, s Source, q Question, sums, from string) error {
	statement := fmt.Sprintf(`SELECT *, row_number() OVER mine AS place, count(*) OVER (PARTITION BY namespace) FROM (SELECT %s, %s
FROM %s GROUP BY ALL) WINDOW mine AS (PARTITION BY namespace ORDER BY n DESC, service_account, labels, host, port, protocol, verdict, path)
ORDER BY place, n DESC, namespace LIMIT %d`, keys, sums, from, cmp.Or(q.Most, MaxFlows))
	there, read := map[string]uint64{}, map[string]uint64{}
	err := s.SQL(ctx, statement, rows{18, func(c cells) {
		f := &Flow{Namespace: c.text(0), Account: c.text(1), Labels: c.text(2), Host: c.text(3), Port: uint32(min(c.number(4), 65535)), Protocol: c.text(5), Verdict: record.Verdict(c.text(6)), Way: c.text(7)}
		f.First, f.Last = c.time(8), c.time(9)
		f.Days = c.days(10)
		f.Replicas, f.AtOnce, f.Destinations = c.texts(11), uint32(min(c.number(11), math.MaxUint32)), c.texts(12)
		f.Records, f.BytesSent, f.BytesReceived = c.number(13), c.number(14), c.number(15)
		slices.Sort(f.Days)
		l.Flows = append(l.Flows, f)
		there[f.Namespace] = c.number(17)
		read[f.Namespace]++
	}})
	l.Cut = map[string]bool{}
	for namespace, n := range there {
		if read[namespace] < n {
			l.Cut[namespace] = true
		}
	}
	slices.SortFunc(l.Flows, (*Flow).Compare)
	return err
}

// Compare puts flows in order.
func (f *Flow) Compare(o *Flow) int {
	return cmp.Or(cmp.Compare(f.Namespace, o.Namespace), cmp.Compare(f.Account, o.Account), cmp.Compare(f.Labels, o.Labels),
		cmp.Compare(f.Host, o.Host), cmp.Compare(f.Port, o.Port), cmp.Compare(f.Protocol, o.Protocol), cmp.Compare(f.Verdict, o.Verdict), cmp.Compare(f.Way, o.Way))
}

// readRequests reads the paths of requests, one after the other: only their templates are kept.
func (l *Log) readRequests(ctx context.Context, s Source, q Question) error {
	statement := fmt.Sprintf("SELECT %s, method, url_path FROM records WHERE %s GROUP BY ALL ORDER BY ALL", keys, q.where(outside+" AND protocol = 'http'"))
	return l.takeRequests(ctx, s, statement, 1)
}

// takeRequests reads requests: flows' keys, a method, and so many paths.
func (l *Log) takeRequests(ctx context.Context, s Source, statement string, paths int) error {
	return s.SQL(ctx, statement, rows{9 + paths, func(c cells) {
		key := Flow{Namespace: c.text(0), Account: c.text(1), Labels: c.text(2), Host: c.text(3), Port: uint32(min(c.number(4), 65535)), Protocol: c.text(5), Verdict: record.Verdict(c.text(6)), Way: c.text(7)}
		at, found := slices.BinarySearchFunc(l.Flows, &key, (*Flow).Compare)
		if !found { // of those that were left out
			return
		}
		f := l.Flows[at]
		if f.Requests == nil {
			f.Requests = map[string]*Paths{}
		}
		if f.Requests[c.text(8)] == nil {
			f.Requests[c.text(8)] = &Paths{}
		}
		for i := range paths {
			f.Requests[c.text(8)].Add(c.text(9 + i))
		}
	}})
}

// readRules reads which rules allowed something.
func (l *Log) readRules(ctx context.Context, s Source, q Question) error {
	statement := "SELECT DISTINCT allowed_by_namespace, allowed_by_name, allowed_by_rule FROM records WHERE " +
		q.where("class IN ('network', 'http') AND allowed_by_kind = "+query.Literal(record.EgressPolicy))
	l.Rules = map[Rule]bool{}
	return s.SQL(ctx, statement, rows{3, func(c cells) { l.Rules[Rule{c.text(0), c.text(1), c.text(2)}] = true }})
}

// readSummary reads what else is to be said. How far the log reaches is by when its records came in: their own times are others' word.
func (l *Log) readSummary(ctx context.Context, s Source, q Question) error {
	const others = "class IN ('network', 'http', 'dns')"
	statement := fmt.Sprintf(`SELECT
	(SELECT epoch_us(min(ingested)) FROM records),
	(SELECT CAST(coalesce(sum(lost), 0) AS VARCHAR) FROM records WHERE %s),
	(SELECT count(*) FROM records WHERE %s),
	(SELECT count(*) FROM records WHERE %s)`,
		Question{Since: q.Since, Until: q.Until}.where("class = 'gap'"), q.where(others+" AND namespace = ''"), q.where(others+" AND coalesce(claim, '') <> ''"))
	return s.SQL(ctx, statement, rows{4, func(c cells) {
		if c[0] != nil {
			l.Oldest = c.time(0)
		}
		l.Gaps, l.Nameless, l.Claimed = c.number(1), c.number(2), c.number(3)
	}})
}

// rows takes a result of so many columns row by row.
type rows struct {
	width int
	take  func(cells)
}

// Columns implements query.RowSink.
func (r rows) Columns(names []string) error {
	if len(names) != r.width {
		return fmt.Errorf("the audit log answers with %d columns, and was asked for %d", len(names), r.width)
	}
	return nil
}

// Row implements query.RowSink.
func (r rows) Row(row []any) error {
	if len(row) != r.width {
		return r.Columns(make([]string, len(row)))
	}
	r.take(row)
	return nil
}

// cells are a row: of a remote source all numbers are json.Number.
type cells []any

func (c cells) text(i int) string {
	s, _ := c[i].(string)
	return s
}

func (c cells) number(i int) uint64 { return number(c[i]) }

// number is never negative, and the largest where it does not fit.
func number(v any) uint64 {
	var s string
	switch v := v.(type) {
	case int64:
		return uint64(max(v, 0))
	case uint64:
		return v
	case json.Number:
		s = v.String()
	case string:
		s = v
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return ^uint64(0)
	}
	return n
}

func (c cells) time(i int) time.Time { return time.UnixMicro(int64(c.number(i))).UTC() }

func (c cells) list(i int) []any {
	list, _ := c[i].([]any)
	return list
}

// days are a list of numbers, or one in a text, which is a tenth of the work.
func (c cells) days(i int) (out []int64) {
	if text := c.text(i); text != "" {
		for day := range strings.SplitSeq(text, ",") {
			out = append(out, int64(number(day)))
		}
	}
	for _, day := range c.list(i) {
		out = append(out, int64(number(day)))
	}
	return out
}

func (c cells) texts(i int) (out []string) {
	for _, v := range c.list(i) {
		if s, _ := v.(string); s != "" {
			out = append(out, s)
		}
	}
	return out
}
