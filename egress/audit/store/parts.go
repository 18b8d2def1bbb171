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

// Reporters is a view of the proxies of which there are records (proxy), each once.
const Reporters = "record_proxies"

// What Table is made of. RowsTable has a row for each record: what differs from record to record, and the numbers of its parts. WholeTable has records
// whose parts were too many to be numbered (dictionary.number), with all columns; in a folder of an older version those that this one wrote, too.
// Others is a view of all that are not in RowsTable: of WholeTable, and of what earlier.go is about.
const (
	RowsTable  = "record_rows"
	WholeTable = "record_whole"
	Others     = "record_others"
)

// part is what many records share: who sent them, where to, what became of it. Its table has it once for many of them, under the number (id) by which
// RowsTable names it, with the moment at which the first of them came in (since). It is there anew for each day: see dictionary.
type part struct {
	table   string
	id      string           // in RowsTable
	columns []string         // of the schema; sourceAddress
	fields  []*schema.Column // those of columns; nil of sourceAddress
}

// A record's source is kept as an address, which is its sender's, and a port, which each connection has its own of. What is no address with a
// port is kept whole, with no port.
const (
	sourceAddress = "source_address"
	sourcePort    = "source_port"
)

// A record's number in its spool is kept as how far it is ahead of the row's own (nth), of which each is one more than that of the row before. Records of a spool come one after
// the other, so that both take next to nothing, where numbers of many spools by turns take one and a half bytes. Larger numbers than numbered are in WholeTable.
const (
	nthColumn   = "nth"
	aheadColumn = "ahead"
	numbered    = 1 << 62
)

// microseconds is a record's duration, in RowsTable. What Envoy measures below is noise, and takes more than a byte.
const microseconds = "duration_us"

var parts = withFields([]part{
	{table: "record_reporters", id: "reporter_id", columns: []string{"proxy", "epoch", "reporter"}},
	{table: "record_senders", id: "sender_id", columns: []string{"principal", "namespace", "service_account", "workload", "labels", "claim", sourceAddress, "forwarded_for"}},
	{table: "record_targets", id: "target_id", columns: []string{
		"host", "port", "sni", "authority", "dialled", "destination", "destination_principal", "destination_namespace", "destination_service_account",
		"destination_workload", "destination_labels", "protocol", "cluster", "route",
		"decided_by_kind", "decided_by_namespace", "decided_by_name", "decided_by_rule", "decided_by_revision", // mostly what registered the host
	}},
	{table: "record_outcomes", id: "outcome_id", columns: []string{
		"class", "verdict", "path", "direction", "method", "status", "reason", "allowed_by_kind", "allowed_by_namespace", "allowed_by_name", "allowed_by_rule", "allowed_by_revision",
		"would_deny_kind", "would_deny_namespace", "would_deny_name", "would_deny_rule", "would_deny_revision", "actor", "actor_by", "action", "flags", "cut",
	}},
})

// withFields finds the parts' columns: they are asked for with each record.
func withFields(of []part) []part {
	for i := range of {
		for _, name := range of[i].columns {
			of[i].fields = append(of[i].fields, byName[name])
		}
	}
	return of
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

// rowColumns are RowsTable's: numbers of parts, and what it has of the schema, some of it in a form of its own.
func rowColumns() []inputColumn {
	out := []inputColumn{{name: ingestedColumn, kind: "TIMESTAMPTZ"}}
	for _, p := range parts {
		out = append(out, inputColumn{name: p.id, kind: "UBIGINT"})
	}
	out = append(out, inputColumn{name: sourcePort, kind: "UINTEGER"})
	for i := range schema.Columns {
		switch c := &schema.Columns[i]; {
		case homeOf(c.Name) != RowsTable:
		case c.Name == "seq":
			out = append(out, inputColumn{name: nthColumn, kind: "BIGINT"}, inputColumn{name: aheadColumn, kind: "BIGINT"})
		case c.Name == "duration_ns":
			out = append(out, inputColumn{name: microseconds, kind: "BIGINT"})
		default:
			out = append(out, inputColumn{name: c.Name, kind: c.Type})
		}
	}
	return out
}

// createParts are statements that make the tables.
func createParts() (out []string) {
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
	}
	return append(out, createTable(RowsTable, rowColumns()))
}

// createWhole is a statement that makes the table of whole records.
func createWhole() string {
	return createTable(WholeTable, append(wholeRecords(), inputColumn{name: ingestedColumn, kind: "TIMESTAMPTZ"}))
}

// createViews are statements that make the views, of a folder that has records of before, or has none.
func createViews(earlier bool) []string {
	arrived := "SELECT time, " + ingestedColumn + " FROM "
	others, arrivals, reporters := "SELECT * FROM "+WholeTable, arrived+RowsTable+" UNION ALL "+arrived+WholeTable, "SELECT proxy FROM record_reporters UNION SELECT proxy FROM "+WholeTable
	if earlier {
		others = "SELECT " + strings.Join(tableColumns(), ", ") + " FROM " + WholeTable + " UNION ALL " + earlierRecords()
		arrivals += " UNION ALL " + arrived + earlierRows
		reporters += " UNION SELECT proxy FROM " + earlierTable("record_reporters")
	}
	return []string{
		"CREATE OR REPLACE VIEW " + Others + " AS " + others,
		"CREATE OR REPLACE VIEW " + Table + " AS " + Without(),
		"CREATE OR REPLACE VIEW " + Arrivals + " AS " + arrivals,
		"CREATE OR REPLACE VIEW " + Reporters + " AS " + reporters,
	}
}

// appendKey appends to b what tells this part of a record from others.
func (p *part) appendKey(b []byte, r *record.Record) []byte {
	for _, c := range p.fields {
		if c != nil {
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
