package lake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/ocsf"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// A file's columns are those of OCSF events, as package ocsf writes them, without the names that stand beside numbers. What a record says
// in more words than the schema is under unmapped, by the names of the record's own columns: nothing is lost on the way.

// event are a file's columns: name, and what it is made of in SQL over the store's table.
var event = [][2]string{
	{"class_uid", "CASE class WHEN 'http' THEN 4002 WHEN 'dns' THEN 4003 WHEN 'gap' THEN 0 WHEN 'action' THEN 6003 ELSE 4001 END::INTEGER"},
	{"category_uid", "CASE class WHEN 'gap' THEN 0 WHEN 'action' THEN 6 ELSE 4 END::INTEGER"},
	{"activity_id", activity + "::INTEGER"},
	{"type_uid", "(class_uid::BIGINT * 100 + activity_id)::BIGINT"},
	{"severity_id", "CASE WHEN class = 'gap' THEN 3 WHEN verdict = 'denied' THEN 2 ELSE 1 END::INTEGER"},
	{"action_id", "CASE WHEN verdict = 'denied' THEN 2 WHEN verdict = 'allowed' AND " + would + " THEN 3 WHEN verdict = 'allowed' THEN 1 END::INTEGER"},
	{"disposition_id", "CASE WHEN verdict = 'denied' THEN 2 WHEN verdict = 'allowed' AND " + would + " THEN 17 WHEN verdict = 'allowed' THEN 1 END::INTEGER"},
	{"time", "epoch_ms(time)"},
	{"time_dt", "time"},
	{"duration", "CASE WHEN duration_ns > 0 THEN duration_ns // 1000000 END"},
	{"message", "CASE WHEN class = 'action' THEN " + deed + " ELSE reason END"},
	{"count", "CASE WHEN class = 'gap' THEN " + signed("lost") + " END"},
	{"metadata", "struct_pack(version := " + query.Literal(ocsf.SchemaVersion) + ", product := struct_pack(name := 'Sallyport', vendor_name := 'Sallyport'), profiles := " +
		"['" + strings.Join(ocsf.Profiles, "', '") + "'], sequence := " + signed("seq") + ", logged_time := epoch_ms(ingested), logged_time_dt := ingested)"},
	{"actor", "struct_pack(user := CASE WHEN class = 'action' THEN struct_pack(uid := '', name := coalesce(nullif(actor, ''), '" + record.NotLoggedIn + "'), type_id := CASE WHEN coalesce(actor, '') = '' THEN 0 ELSE 1 END) " +
		"ELSE struct_pack(uid := principal, name := concat_ws('/', nullif(namespace, ''), service_account), type_id := 4) END)"},
	{"api", "CASE WHEN class = 'action' THEN struct_pack(operation := action, service := struct_pack(name := 'sallyport ' || reporter)) END"},
	{"src_endpoint", "struct_pack(ip := " + sourceIP + ", port := " + sourcePort + ", name := workload)"},
	{"dst_endpoint", "struct_pack(hostname := CASE WHEN class <> 'dns' THEN host END, ip := " + address("destination", 1) + ", port := nullif(" + signed("port") + ", 0), name := destination_workload)"},
	{"proxy_endpoint", "struct_pack(name := proxy)"},
	{"connection_info", "struct_pack(direction_id := CASE direction WHEN 'inbound' THEN 1 WHEN 'outbound' THEN 2 WHEN 'lateral' THEN 3 ELSE 0 END::INTEGER, " +
		"protocol_num := CASE WHEN class = 'dns' THEN 17 ELSE 6 END::INTEGER)"},
	{"traffic", "struct_pack(bytes_in := " + signed("bytes_sent") + ", bytes_out := " + signed("bytes_received") + ")"},
	{"tls", "CASE WHEN sni <> '' THEN struct_pack(sni := sni, version := 'Unknown') END"},
	{"http_request", "CASE WHEN class = 'http' OR url_path <> '' THEN struct_pack(http_method := CASE WHEN " + activity + " NOT IN (0, 99) THEN method END, url := struct_pack(hostname := CASE WHEN class <> 'action' THEN host END, port := CASE WHEN class <> 'action' THEN nullif(" + signed("port") + ", 0) END, path := url_path, " +
		"scheme := CASE WHEN class = 'action' THEN NULL ELSE CASE protocol WHEN 'tls' THEN 'https' ELSE 'http' END END)) END"},
	{"http_response", "CASE WHEN status <> 0 THEN struct_pack(code := " + signed("status") + ") END"},
	{"query", "CASE WHEN class = 'dns' THEN struct_pack(hostname := host) END"},
	{"policy", "CASE WHEN " + policyOf("kind") + " IS NOT NULL THEN struct_pack(uid := " + policyOf("namespace") + " || '/' || " + policyOf("name") + ", name := " + policyOf("name") +
		", version := " + policyOf("revision") + ", is_applied := NOT (" + would + ")) END"},
	{"firewall_rule", "CASE WHEN decided_by_name <> '' OR decided_by_rule <> '' THEN struct_pack(name := concat_ws('/', nullif(decided_by_namespace, ''), decided_by_name), uid := decided_by_rule, version := decided_by_revision, " +
		"type := decided_by_kind, \"desc\" := reason) END"},
	{"unmapped", "struct_pack(" + strings.Join(unmapped(schema.Version), ", ") + ", source := CASE WHEN " + sourceIP + " IS NULL THEN source END)"},
}

// wide are the types of numbers that have no sign, and those that engines know instead, with the largest number that these have: what is larger, which nothing
// that was counted is, becomes that.
var wide = map[string]string{"UINTEGER": "2147483647::INTEGER", "UBIGINT": "9223372036854775807::BIGINT"}

// signed is a column of the record as a file has it.
func signed(name string) string {
	i := slices.IndexFunc(schema.Columns, func(c schema.Column) bool { return c.Name == name })
	most, is := wide[schema.Columns[i].Type]
	if !is {
		return name
	}
	number, kind, _ := strings.Cut(most, "::")
	return "(CASE WHEN " + name + " > " + number + " THEN " + number + " ELSE " + name + " END)::" + kind
}

// deed is record.Deed.
const deed = "coalesce(nullif(action, ''), '" + record.SomethingDone + "') || ' by ' || CASE WHEN coalesce(actor, '') = '' THEN '" + record.NobodyKnown + "' " +
	"WHEN actor_by = '" + record.BySystem + "' THEN actor || '" + record.ByItsWord + "' ELSE actor END || CASE WHEN coalesce(reason, '') = '' THEN '' ELSE '; ' || reason END"

const would = "coalesce(would_deny_kind, '') <> ''"

// activity is OCSF's, by class and method.
const activity = "CASE class WHEN 'gap' THEN 99 WHEN 'action' THEN 99 WHEN 'dns' THEN 6 WHEN 'http' THEN CASE method WHEN '' THEN 0 WHEN 'CONNECT' THEN 1 WHEN 'DELETE' THEN 2 WHEN 'GET' THEN 3 " +
	"WHEN 'HEAD' THEN 4 WHEN 'OPTIONS' THEN 5 WHEN 'POST' THEN 6 WHEN 'PUT' THEN 7 WHEN 'TRACE' THEN 8 ELSE 99 END ELSE CASE verdict WHEN 'denied' THEN 5 ELSE 6 END END"

// policyOf is a part of the rule that an event is about, like ocsf's.
func policyOf(part string) string {
	return "CASE WHEN " + would + " THEN would_deny_" + part + " WHEN coalesce(allowed_by_kind, '') <> '' THEN allowed_by_" + part +
		" WHEN decided_by_kind = 'EgressPolicy' THEN decided_by_" + part + " END"
}

// address is a part of ADDRESS:PORT, as programs write it; NULL of what is not.
func address(column string, part int) string {
	const form = `^(?:\[([0-9a-f.]{0,39}:[0-9a-f:.]{1,45})\]|([0-9]{1,3}(?:\.[0-9]{1,3}){3})):(0|[1-9][0-9]{0,4})$`
	match := func(group int) string {
		return fmt.Sprintf("nullif(regexp_extract(%s, '%s', %d), '')", column, form, group)
	}
	if part == 1 {
		return "coalesce(" + match(1) + ", " + match(2) + ")"
	}
	return match(3) + "::INTEGER"
}

var sourceIP, sourcePort = address("source", 1), address("source", 2)

// exact are the columns that a record gets back from where the schema has a place for them: those with many values.
var exact = map[string]string{
	"time": "time_dt", "seq": "metadata.sequence", "bytes_sent": "traffic.bytes_in", "bytes_received": "traffic.bytes_out", "url_path": "coalesce(http_request.url.path, '')",
	"source": "coalesce(unmapped.source, CASE WHEN contains(src_endpoint.ip, ':') THEN '[' || src_endpoint.ip || ']' ELSE src_endpoint.ip END || ':' || src_endpoint.port)",
}

// unmapped are the other columns of a version of the schema.
func unmapped(version int) (list []string) {
	for i := range schema.Columns {
		if c := &schema.Columns[i]; c.Since <= version && exact[c.Name] == "" {
			list = append(list, c.Name+" := "+signed(c.Name))
		}
	}
	return list
}

// events is a SELECT of the events of the records for which a condition holds, ordered by time.
func events(condition string) string {
	var list []string
	for _, c := range event {
		sql := c[1]
		if c[0] == "type_uid" { // made of two others
			at := func(name string) string {
				return "(" + event[slices.IndexFunc(event, func(e [2]string) bool { return e[0] == name })][1] + ")"
			}
			sql = strings.NewReplacer("class_uid", at("class_uid"), "activity_id", at("activity_id")).Replace(sql)
		}
		list = append(list, sql+" AS \""+c[0]+"\"")
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + store.Table + " WHERE " + condition + " ORDER BY " + store.Table + ".time, proxy, epoch, seq"
}

// merged is a SELECT of the events of files of one version of the schema, in the order of events. Files of before have no api.
func merged(files []string) string {
	return "SELECT * FROM " + parquet(files, "union_by_name = true") + " ORDER BY time_dt, proxy_endpoint.name, unmapped.epoch, metadata.sequence"
}

func parquet(files []string, more ...string) string {
	var list []string
	for _, file := range files {
		list = append(list, query.Literal(file))
	}
	options := append([]string{"hive_partitioning = false"}, more...)
	return "read_parquet([" + strings.Join(list, ", ") + "], " + strings.Join(options, ", ") + ")"
}

// records is a SELECT of the records that are in files, with the store's columns; versions are those of the files' schemas.
func records(files map[int][]string) string {
	var parts []string
	for version := range schema.Version + 1 {
		if len(files[version]) == 0 {
			continue
		}
		var list []string
		for i := range schema.Columns {
			c := &schema.Columns[i]
			from := exact[c.Name]
			switch {
			case c.Since > version:
				from = "NULL::" + c.Type
			case from == "":
				from = "unmapped." + c.Name
			}
			if wide[c.Type] != "" {
				from = "(" + from + ")::" + c.Type
			}
			list = append(list, from+" AS "+c.Name)
		}
		parts = append(parts, "SELECT "+strings.Join(list, ", ")+", metadata.logged_time_dt AS ingested FROM "+parquet(files[version]))
	}
	if len(parts) == 0 {
		var list []string
		for i := range schema.Columns {
			list = append(list, "NULL::"+schema.Columns[i].Type+" AS "+schema.Columns[i].Name)
		}
		return "SELECT " + strings.Join(list, ", ") + ", NULL::TIMESTAMPTZ AS ingested WHERE false"
	}
	return strings.Join(parts, " UNION ALL ")
}
