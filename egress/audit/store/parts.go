package store

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// Table is the name of the view of records that questions are about. Its columns are schema.Columns, and ingestedColumn.
const Table = "records"

// Arrivals is a view of when records were (time), and when they came in (ingested): for who asks nothing else about them.
const Arrivals = "record_arrivals"

// What Table is made of. RowsTable has a row for each record: what differs from record to record, and the numbers of its parts. WholeTable has records
// whose parts were too many to be numbered (dictionary.number), with all columns; in a folder of an older version those that this one wrote, too.
const (
	RowsTable  = "record_rows"
	WholeTable = "record_whole"
)

// part is what many records share: who sent them, where to, what became of it. Its table has it once for many of them, under the number (id) by which
// RowsTable names it, with the moment at which the first of them came in (since). It is there anew for each day: see dictionary.
type part struct {
	table   string
	id      string   // in RowsTable
	columns []string // of the schema; sourceAddress
}

// A record's source is kept as an address, which is its sender's, and a port, which each connection has its own of. What is no address with a
// port is kept whole, with no port.
const (
	sourceAddress = "source_address"
	sourcePort    = "source_port"
)

var parts = []part{
	{"record_reporters", "reporter_id", []string{"proxy", "epoch", "reporter"}},
	{"record_senders", "sender_id", []string{"principal", "namespace", "service_account", "workload", "labels", "claim", sourceAddress, "forwarded_for"}},
	{"record_targets", "target_id", []string{
		"host", "port", "sni", "authority", "dialled", "destination", "destination_principal", "destination_namespace", "destination_service_account",
		"destination_workload", "destination_labels", "protocol", "cluster", "route",
	}},
	{"record_outcomes", "outcome_id", []string{
		"class", "verdict", "path", "direction", "method", "status", "decided_by_kind", "decided_by_namespace", "decided_by_name", "decided_by_rule",
		"decided_by_revision", "reason", "allowed_by_kind", "allowed_by_namespace", "allowed_by_name", "allowed_by_rule", "allowed_by_revision",
		"would_deny_kind", "would_deny_namespace", "would_deny_name", "would_deny_rule", "would_deny_revision", "actor", "actor_by", "action", "flags", "cut",
	}},
}

// byName are the schema's columns.
var byName = func() map[string]*schema.Column {
	out := map[string]*schema.Column{}
	for i := range schema.Columns {
		out[schema.Columns[i].Name] = &schema.Columns[i]
	}
	return out
}()

// homeOf is the table of a column of the schema. (That of source's port is RowsTable.)
func homeOf(column string) string {
	if column == "source" {
		column = sourceAddress
	}
	for _, p := range parts {
		if slices.Contains(p.columns, column) {
			return p.table
		}
	}
	return RowsTable
}

// own are the schema's columns that RowsTable has.
func own() (out []*schema.Column) {
	for i := range schema.Columns {
		if c := &schema.Columns[i]; homeOf(c.Name) == RowsTable {
			out = append(out, c)
		}
	}
	return out
}

// createParts are statements that make the tables.
func createParts() (out []string) {
	rows := []string{ingestedColumn + " TIMESTAMPTZ"}
	for _, p := range parts {
		columns := []string{"id UBIGINT", "since TIMESTAMPTZ"}
		for _, name := range p.columns {
			kind := "VARCHAR"
			if c := byName[name]; c != nil {
				kind = c.Type
			}
			columns = append(columns, name+" "+kind)
		}
		out = append(out, "CREATE TABLE "+p.table+" ("+strings.Join(columns, ", ")+")")
		rows = append(rows, p.id+" UBIGINT")
	}
	rows = append(rows, sourcePort+" UINTEGER")
	for _, c := range own() {
		rows = append(rows, c.Name+" "+c.Type)
	}
	return append(out, "CREATE TABLE "+RowsTable+" ("+strings.Join(rows, ", ")+")")
}

// createWhole is a statement that makes the table of whole records.
func createWhole() string {
	return createTable(WholeTable, append(wholeRecords(), inputColumn{name: ingestedColumn, kind: "TIMESTAMPTZ"}))
}

// createViews are statements that make the views.
func createViews() []string {
	return []string{
		"CREATE OR REPLACE VIEW " + Table + " AS " + Without(),
		"CREATE OR REPLACE VIEW " + Arrivals + " AS " + both([]string{"time", ingestedColumn}, "", []string{"time", ingestedColumn}),
	}
}

// appendKey appends to b what tells this part of a record from others.
func (p *part) appendKey(b []byte, r *record.Record) []byte {
	for _, name := range p.columns {
		if c := byName[name]; c != nil {
			b = c.AppendKey(b, r)
		} else {
			address, _, _ := splitSource(r.Source)
			b = schema.AppendText(b, address)
		}
	}
	return b
}

// splitSource takes ADDRESS:PORT apart, so that it can be put together again; some is false, and address is all of it, where it is none.
func splitSource(source string) (address string, port uint32, some bool) {
	at := strings.LastIndexByte(source, ':')
	digits := source[at+1:]
	if at < 0 || digits == "" || len(digits) > 5 || digits[0] == '0' && digits != "0" {
		return source, 0, false
	}
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return source, 0, false
		}
		port = 10*port + uint32(d-'0')
	}
	return source[:at], port, true
}
