package query

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// Key is what a term can be about.
type Key struct {
	Name    string
	Doc     string // for people, in Markdown
	Example string

	numbers bool                                                // takes > and <
	columns []string                                            // of the log, which where reads
	rolled  *Key                                                // of columns that roll-ups have: what fits it fits this key, too
	check   func(value string) error                            // nil: any text
	where   func(operator, value string) (string, []any)        // the condition, which is never NULL
	match   func(operator, value string, r *record.Record) bool // the same of a record
}

// keys are those that are not a column's own name, or say more than that.
var keys = []Key{
	texts("host", "the name that was tried; * is any text, ? one character", "host:*.example.com", "host"),
	workloadKey("workload", "NAMESPACE/NAME, or NAMESPACE for all in it: the name of a pod or a service account", "workload:shop/cart", "namespace", "workload", "service_account").
		withRolled(workloadKey("", "", "", "namespace", "service_account")),
	texts("account", "the sender's service account", "account:cart", "service_account"),
	texts("pod", "the sender's pod", "pod:cart-6d5f7c9b4-*", "workload"),
	listed("label", "one of the sender's labels, KEY=VALUE", "label:app=cart", "labels"),
	workloadKey("to", "the workload of the mesh that was reached, like `workload`", "to:shop/db", "destination_namespace", "destination_workload", "destination_service_account"),
	oneOf("verdict", "`allowed` or `denied`", "verdict:denied", "verdict", string(record.Allowed), string(record.Denied)),
	oneOf("class", "`network`, `http`, `dns`, `gap` where records are missing, or `action`, what somebody did", "class:dns", "class", string(record.Network), string(record.HTTP), string(record.DNS), string(record.Gap), string(record.Action)),
	texts("url", "the path of a request", "url:/api/*", "url_path"),
	texts("address", "the address that was really connected to, or tried", "address:10.0.0.*", "destination"),
	rules("policy", "NAMESPACE/NAME of an EgressPolicy or AuthorizationPolicy that denied it, allowed it, or would deny it", "policy:shop/allowed", func(value string) (Rule, error) { return ParsePolicy(value) }, false),
	rules("rule", "the name of such a policy's rule, or `default`", "rule:partners", func(value string) (Rule, error) { return Rule{Name: value}, nil }, false),
	rules("would-deny", "NAMESPACE/NAME of an EgressPolicy that would deny it if it were enforced; * for any", "would-deny:*", func(value string) (Rule, error) { return ParsePolicy(value) }, true),
	decidedKey,
	listed("flag", "one of Envoy's response flags", "flag:UF", "flags"),
	sums("bytes", "bytes in both directions; kB, MB, GB are 1,000 each, KiB, MiB, GiB 1,024", "bytes:>10MB", parseBytes, "bytes_sent", "bytes_received"),
	sums("sent", "bytes towards the client", "sent:>1MB", parseBytes, "bytes_sent"),
	sums("received", "bytes from the client", "received:>=1GB", parseBytes, "bytes_received"),
	sums("duration", "how long it lasted", "duration:>30s", parseNanos, "duration_ns"),
	sums("port", "the port that was tried", "port:443,8443", parseNumber, "port"),
	sums("status", "the HTTP status that the client got", "status:>=500", parseNumber, "status"),
}

// Keys are what terms can be about, in the order in which people look for them; then each column of the log by its name.
func Keys() []Key {
	out := slices.Clone(keys)
	for i := range schema.Columns {
		c := &schema.Columns[i]
		if slices.ContainsFunc(keys, func(k Key) bool { return k.Name == c.Name }) || c.Name == "time" {
			continue
		}
		switch c.Type {
		case "VARCHAR":
			out = append(out, texts(c.Name, c.Doc, "", c.Name))
		default:
			out = append(out, sums(c.Name, c.Doc, "", parseNumber, c.Name))
		}
	}
	return out
}

var byName = func() map[string]Key {
	out := map[string]Key{}
	for _, k := range Keys() {
		out[k.Name] = k
	}
	out["from"] = out["workload"]
	return out
}()

// check says what is wrong with a term.
func (t Term) check() error {
	k, known := byName[t.Key]
	switch {
	case !known && len(t.Values) > 0 && strings.HasPrefix(t.Values[0], "//"):
		return errors.New("a URL is no filter: write its host and its path, such as host:a.test url:/x")
	case !known:
		return fmt.Errorf("there is no key %q%s; keys are %s, and the columns of the log", t.Key, meant(t.Key), keyNames())
	case len(t.Values) == 0:
		return errors.New("a value is missing")
	case t.Operator != "" && !slices.Contains(operators, t.Operator):
		return fmt.Errorf("%q is no comparison", t.Operator)
	case t.Operator != "" && (!k.numbers || len(t.Values) > 1):
		return fmt.Errorf("%s compares one number; %s is compared by its text", t.Operator, t.Key)
	}
	if k.check == nil {
		return nil
	}
	for _, v := range t.Values {
		if err := k.check(v); err != nil {
			return err
		}
	}
	return nil
}

func keyNames() string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return strings.Join(out, ", ")
}

// meant is a key that is nearly what was written.
func meant(text string) string {
	for _, k := range Keys() {
		if len(text) > 2 && (strings.HasPrefix(k.Name, text) || strings.HasPrefix(text, k.Name)) {
			return fmt.Sprintf(" (did you mean %q?)", k.Name)
		}
	}
	return ""
}

// where writes the term as a condition. What no check lets through chooses nothing.
func (t Term) where() (string, []any) {
	if t.check() != nil {
		return "false", nil
	}
	return t.whereOf(byName[t.Key])
}

// whereOf writes it as a condition about a key.
func (t Term) whereOf(k Key) (string, []any) {
	var either []string
	var args []any
	for _, v := range t.Values {
		condition, more := k.where(t.Operator, v)
		either, args = append(either, condition), append(args, more...)
	}
	condition := "(" + strings.Join(either, " OR ") + ")"
	if t.Not {
		condition = "NOT " + condition
	}
	return condition, args
}

// match says whether a record fits. It agrees with where.
func (t Term) match(r *record.Record) bool {
	if t.check() != nil {
		return false
	}
	k := byName[t.Key]
	return t.Not != slices.ContainsFunc(t.Values, func(v string) bool { return k.match(t.Operator, v, r) })
}

// folded are the columns in which upper and lower case are alike: names of hosts.
var folded = []string{"host", "sni", "authority"}

func column(name string) *schema.Column {
	at := slices.IndexFunc(schema.Columns, func(c schema.Column) bool { return c.Name == name })
	return &schema.Columns[at]
}

// texts is a key of columns of text, one of which is to fit a glob.
func texts(name, doc, example string, columns ...string) Key {
	var of []*schema.Column
	for _, c := range columns {
		of = append(of, column(c))
	}
	return Key{Name: name, Doc: doc, Example: example, columns: columns,
		where: func(_, value string) (string, []any) {
			var either []string
			var args []any
			for _, c := range columns {
				condition, arg := textWhere(c, value)
				either, args = append(either, condition), append(args, arg)
			}
			return strings.Join(either, " OR "), args
		},
		match: func(_, value string, r *record.Record) bool {
			return slices.ContainsFunc(of, func(c *schema.Column) bool { return textMatch(c, value, r) })
		},
	}
}

func textWhere(name, glob string) (string, any) {
	of := "coalesce(" + name + ", '')"
	if slices.Contains(folded, name) {
		of, glob = "lower("+of+")", strings.ToLower(glob)
	}
	if text, only := plainGlob(glob); only {
		return of + " = ?", text
	}
	return of + ` LIKE ? ESCAPE '\'`, globLike(glob)
}

func textMatch(c *schema.Column, glob string, r *record.Record) bool {
	text, _ := c.Value(r).(string)
	if slices.Contains(folded, c.Name) {
		text, glob = strings.ToLower(text), strings.ToLower(glob)
	}
	return globMatch(glob, text)
}

// oneOf is a key of a column with few values.
func oneOf(name, doc, example, column string, values ...string) Key {
	k := texts(name, doc, example, column)
	k.check = func(value string) error {
		if value != "" && !slices.Contains(values, value) {
			return fmt.Errorf("it is %s", strings.Join(values, " or "))
		}
		return nil
	}
	return k
}

// listed is a key of a column that holds a list, by comma: one item is to fit.
func listed(name, doc, example, of string) Key {
	c := column(of)
	return Key{Name: name, Doc: doc, Example: example, columns: []string{of},
		check: func(value string) error {
			if strings.Contains(value, ",") {
				return fmt.Errorf("%s: is about one; write several terms", name)
			}
			return nil
		},
		where: func(_, value string) (string, []any) {
			list := "(',' || coalesce(" + of + ", '') || ',')"
			if value == "" {
				return list + " = ?", []any{",,"}
			}
			if item, only := plainGlob(value); only {
				return "contains(" + list + ", ?)", []any{"," + item + ","}
			}
			return "len(list_filter(string_split(coalesce(" + of + `, ''), ','), lambda x: x LIKE ? ESCAPE '\')) > 0`, []any{globLike(value)}
		},
		match: func(_, value string, r *record.Record) bool {
			text, _ := c.Value(r).(string)
			return slices.ContainsFunc(strings.Split(text, ","), func(item string) bool { return globMatch(value, item) })
		},
	}
}

// withRolled says what of it roll-ups can tell.
func (k Key) withRolled(of Key) Key {
	k.rolled = &of
	return k
}

// workloadKey is a key of NAMESPACE/NAME.
func workloadKey(name, doc, example, namespace string, names ...string) Key {
	ns, any1 := column(namespace), texts("", "", "", names...)
	return Key{Name: name, Doc: doc, Example: example, columns: append([]string{namespace}, names...),
		check: func(value string) error {
			_, err := ParseWorkload(value)
			return err
		},
		where: func(operator, value string) (string, []any) {
			inNamespace, in, _ := strings.Cut(value, "/")
			condition, arg := textWhere(namespace, inNamespace)
			args := []any{arg}
			if inNamespace == "" && in != "" {
				condition, args = "true", nil
			}
			if in != "" {
				named, more := any1.where(operator, in)
				condition, args = condition+" AND ("+named+")", append(args, more...)
			}
			return "(" + condition + ")", args
		},
		match: func(operator, value string, r *record.Record) bool {
			inNamespace, in, _ := strings.Cut(value, "/")
			return (inNamespace == "" && in != "" || textMatch(ns, inNamespace, r)) && (in == "" || any1.match(operator, in, r))
		},
	}
}

// decidedKey is about the object that decided.
var decidedKey = Key{Name: "decided", columns: decidedColumns, Doc: "KIND/NAMESPACE/NAME of the object that decided, or KIND, or \"\" where none did", Example: "decided:ServiceEntry/shop/*",
	check: func(value string) error {
		if n := strings.Count(value, "/"); n != 0 && n != 2 {
			return errors.New("write KIND or KIND/NAMESPACE/NAME, * for any text")
		}
		return nil
	},
	where: func(_, value string) (string, []any) {
		var all []string
		var args []any
		for i, part := range strings.Split(value, "/") {
			condition, arg := textWhere(decidedColumns[i], part)
			all, args = append(all, condition), append(args, arg)
		}
		return "(" + strings.Join(all, " AND ") + ")", args
	},
	match: func(_, value string, r *record.Record) bool {
		for i, part := range strings.Split(value, "/") {
			if !textMatch(column(decidedColumns[i]), part, r) {
				return false
			}
		}
		return true
	},
}

var decidedColumns = []string{"decided_by_kind", "decided_by_namespace", "decided_by_name"}

// rules is a key about rules of EgressPolicies.
func rules(name, doc, example string, parse func(string) (Rule, error), wouldDeny bool) Key {
	return Key{Name: name, Doc: doc, Example: example, columns: ruleColumns,
		check: func(value string) error {
			_, err := parse(value)
			return err
		},
		where: func(_, value string) (string, []any) {
			rule, _ := parse(value)
			condition, args := rule.where(wouldDeny)
			return "coalesce(" + condition + ", false)", args
		},
		match: func(_, value string, r *record.Record) bool {
			rule, _ := parse(value)
			return rule.match(r, wouldDeny)
		},
	}
}

// sums is a key of numbers, which are added up.
func sums(name, doc, example string, parse func(string) (uint64, error), columns ...string) Key {
	var of []*schema.Column
	var list []string
	for _, c := range columns {
		of = append(of, column(c))
		list = append(list, "coalesce("+c+", 0)::HUGEINT")
	}
	return Key{Name: name, Doc: doc, Example: example, numbers: true, columns: columns,
		check: func(value string) error {
			_, err := parse(value)
			return err
		},
		where: func(operator, value string) (string, []any) {
			n, _ := parse(value)
			if operator == "" {
				operator = "="
			}
			return "(" + strings.Join(list, " + ") + ") " + operator + " ?", []any{n}
		},
		match: func(operator, value string, r *record.Record) bool {
			n, _ := parse(value)
			sum := uint64(0)
			for _, c := range of {
				var x uint64
				switch v := c.Value(r).(type) {
				case uint32:
					x = uint64(v)
				case uint64:
					x = v
				case int64:
					x = uint64(max(v, 0))
				}
				if sum+x < sum {
					x = math.MaxUint64 - sum
				}
				sum += x
			}
			switch operator {
			case ">":
				return sum > n
			case ">=":
				return sum >= n
			case "<":
				return sum < n
			case "<=":
				return sum <= n
			}
			return sum == n
		},
	}
}

func parseNumber(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, errors.New("it is a number, 0 or more")
	}
	return n, nil
}

var units = []struct {
	name string
	n    float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}

func parseBytes(text string) (uint64, error) {
	for _, u := range units {
		number, is := strings.CutSuffix(text, u.name)
		if !is {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n >= 0) || n*u.n > math.MaxInt64/2 {
			return 0, fmt.Errorf("%q is no number of bytes, like 10MB", text)
		}
		return uint64(n * u.n), nil
	}
	if n, err := parseNumber(text); err == nil {
		return n, nil
	}
	return 0, fmt.Errorf("%q is no number of bytes, like 10MB", text)
}

func parseNanos(text string) (uint64, error) {
	d, err := ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration, like 30s, 500ms or 1d", text)
	}
	return uint64(d), nil
}
