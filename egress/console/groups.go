package console

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// dimension is what records can be added up by.
type dimension struct {
	Name, Title string
	column      string   // SQL, a text
	reads       []string // columns of the log that it is made of
	terms       func(value string) []query.Term
	page        string // "host" or "workload": such have a page of their own
}

// who is a workload: NAMESPACE/ACCOUNT, or the pod where no account is known.
const who = `CASE WHEN coalesce(namespace, '') = '' THEN coalesce(principal, '')
	ELSE namespace || '/' || coalesce(nullif(service_account, ''), nullif(workload, ''), '') END`

// decider is the object whose rule, or which, decided: NAMESPACE/NAME and the rule for policies, KIND NAMESPACE/NAME otherwise.
const decider = `CASE WHEN coalesce(allowed_by_kind, '') <> '' AND verdict = 'allowed' THEN allowed_by_kind || ' ' || allowed_by_namespace || '/' || allowed_by_name || ' ' || coalesce(allowed_by_rule, '')
	WHEN decided_by_kind <> '' THEN trim(decided_by_kind || ' ' || decided_by_namespace || '/' || decided_by_name || ' ' || decided_by_rule) ELSE '' END`

// What these are made of. who has workload, too (query.Sums.Workload).
var (
	whoReads     = []string{"namespace", "principal", "service_account"}
	deciderReads = []string{"verdict", "allowed_by_kind", "allowed_by_namespace", "allowed_by_name", "allowed_by_rule", "decided_by_kind", "decided_by_namespace", "decided_by_name", "decided_by_rule"}
)

// hostColumn is the host as filters have it: upper and lower case are alike.
const hostColumn = "lower(coalesce(host, ''))"

var dimensions = []dimension{
	{Name: "host", Title: "Host", column: hostColumn, reads: []string{"host"}, terms: key("host"), page: "host"},
	{Name: "domain", Title: "Domain", column: hostColumn, reads: []string{"host"}, terms: termsOfDomain},
	{Name: "workload", Title: "Workload", column: who, reads: whoReads, terms: termsOfWorkload, page: "workload"},
	{Name: "rule", Title: "Decided by", column: decider, reads: deciderReads, terms: termsOfRule},
	{Name: "reason", Title: "Reason", column: "coalesce(reason, '')", reads: []string{"reason"}, terms: key("reason")},
	{Name: "way", Title: "Way", column: "coalesce(path, '')", reads: []string{"path"}, terms: key("path")},
	{Name: "address", Title: "Address", column: "regexp_replace(coalesce(destination, ''), ':[0-9]+$', '')", reads: []string{"destination"}, terms: func(v string) []query.Term {
		return []query.Term{like("address", query.Literally(v), query.Literally(v)+":*")}
	}},
	{Name: "pod", Title: "Pod", column: "coalesce(workload, '')", reads: []string{"workload"}, terms: key("pod")},
	{Name: "port", Title: "Port", column: "coalesce(port, 0)::VARCHAR", reads: []string{"port"}, terms: key("port")},
	{Name: "proxy", Title: "Proxy", column: "proxy", reads: []string{"proxy"}, terms: key("proxy")},
}

func key(name string) func(string) []query.Term {
	return func(v string) []query.Term { return []query.Term{is(name, v)} }
}

func termsOfWorkload(v string) []query.Term {
	if strings.Count(v, "/") != 1 || strings.HasPrefix(v, "/") { // a SPIFFE id of no namespace, or nobody
		return []query.Term{is("principal", v), is("namespace", "")}
	}
	return []query.Term{is("workload", v)}
}

func termsOfRule(v string) []query.Term {
	kind, rest, _ := strings.Cut(v, " ")
	object, rule, _ := strings.Cut(rest, " ")
	namespace, name, _ := strings.Cut(object, "/")
	switch {
	case v == "":
		return []query.Term{is("decided", "")}
	case (kind == record.EgressPolicy || kind == record.AuthorizationPolicy) && rule != "":
		return []query.Term{is("policy", object), is("rule", rule)}
	}
	return []query.Term{is("decided", kind+"/"+namespace+"/"+name)}
}

func dimensionOf(name string) (dimension, bool) {
	at := slices.IndexFunc(dimensions, func(d dimension) bool { return d.Name == name })
	if at < 0 {
		return dimension{}, false
	}
	return dimensions[at], true
}

// group is what is added up for one value.
type group struct {
	Value           string
	Records, Denied uint64
	Bytes           uint64
	Others          uint64 // of hosts: workloads; of all others: hosts. About so many
	First, Last     time.Time
	Only, Not, Page string // addresses
}

// groups are those with the most records.
type groups struct {
	By    dimension
	Other string // what Others counts
	List  []group
	More  bool // there are others
}

// domains is how many hosts are looked at for the domains that they are of.
const domains = 20_000

// traffic is what is said of the records of what was sent or tried, by pages that are about nothing else.
var traffic = query.Term{Key: "class", Not: true, Values: []string{string(record.Gap), string(record.Action)}}

// groups adds up by a dimension; most is how many there can be, and order an expression of SQL, the greatest first. beside is what holds for the records of all
// groups beside what was asked.
func (h *handler) groups(ctx context.Context, a asked, d dimension, most int, order string, beside ...query.Term) (g groups, err error) {
	g.By, g.Other = d, "hosts"
	of := a.beside(beside...)
	others, limit := "host", most
	columns := append([]string{"verdict", "host"}, d.reads...)
	if d.page == "host" || d.Name == "domain" {
		g.Other, others = "workloads", who
		columns = append(columns, whoReads...)
	}
	if d.Name == "domain" {
		limit = domains
	}
	heaviest := order + " DESC, records DESC, value"
	places := heaviest
	if d.Name == "workload" {
		places = inTurn("split_part(value, '/', 1)", heaviest, most)
	}
	slices.Sort(columns)
	sums := query.Sums{Filter: of.Filter, Columns: slices.Compact(columns), Workload: others == who || d.column == who, Statement: func(relation string) string {
		return fmt.Sprintf(`SELECT * FROM (SELECT *, count(*) OVER ()::UBIGINT FROM (SELECT %s AS value, %s AS records, %s AS denied,
			%s AS bytes, approx_count_distinct(%s)::UBIGINT, min(first), max(last)
		FROM %s GROUP BY value) ORDER BY %s LIMIT %d) ORDER BY %s`, d.column, added("records"), addedWhere("records", "verdict = 'denied'"), added(bothWays), others, relation, places, limit, heaviest)
	}}
	err = h.sums(ctx, sums, func(rows *sql.Rows) error {
		var x group
		var all uint64
		err := rows.Scan(&x.Value, &x.Records, &x.Denied, &x.Bytes, &x.Others, &x.First, &x.Last, &all)
		g.List = append(g.List, x)
		g.More = all > uint64(len(g.List))
		return err
	})
	if err != nil {
		return g, err
	}
	if d.Name == "domain" {
		g.List = byDomain(g.List)
	}
	if len(g.List) > most {
		g.List, g.More = g.List[:most], true
	}
	for i := range g.List {
		g.List[i].address(a, of.Expression, d)
	}
	return g, nil
}

// address fills in where a group leads: to its records, of those of all groups.
func (x *group) address(a asked, only query.Expression, d dimension) {
	terms := d.terms(x.Value)
	for _, t := range terms {
		only = only.With(t)
	}
	x.Only = link("/log", only)
	if len(terms) == 1 {
		terms[0].Not = true
		x.Not = a.here(a.Expression.With(terms[0]))
	}
	if d.page != "" && x.Value != "" && (d.page == "host" || strings.Contains(x.Value, "/")) {
		x.Page = link("/"+d.page, query.Expression{Since: a.Expression.Since, Until: a.Expression.Until}, "name", x.Value)
	}
}
