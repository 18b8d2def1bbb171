package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Heads are the headings of a table for people.
func Heads() (out []string) {
	for i := range Columns {
		if Columns[i].Head != "" {
			out = append(out, Columns[i].Head)
		}
	}
	return out
}

// Widths are how wide the columns of such a table usually are.
func Widths() (out []int) {
	for i := range Columns {
		if Columns[i].Head != "" {
			out = append(out, Columns[i].Width)
		}
	}
	return out
}

// Cells are a record's line in such a table.
func Cells(r *record.Record) (out []string) {
	for i := range Columns {
		c := &Columns[i]
		switch {
		case c.Head == "":
		case r.Class == record.Gap && !ofGaps[c.Name]:
			out = append(out, "")
		case r.Class == record.Gap && c.Name == "verdict":
			out = append(out, "GAP")
		case r.Class == record.Action && c.Name == "verdict":
			out = append(out, "ACTION")
		case c.Cell != nil:
			out = append(out, c.Cell(r))
		default:
			text, _ := c.Value(r).(string)
			out = append(out, text)
		}
	}
	return out
}

// ofGaps are the columns that say something of records that are missing.
var ofGaps = map[string]bool{"time": true, "verdict": true, "workload": true, "reason": true}

// timeLayout is of UTC, as everything that is asked by times is; what a clock on a wall says comes twice in an hour of autumn.
const timeLayout = "2006-01-02 15:04:05.000Z"

func timeUTC(r *record.Record) string { return r.Time.UTC().Format(timeLayout) }

// workload is NS/POD, or NS/SERVICEACCOUNT where no pod is known; of a gap, the proxy.
func workload(r *record.Record) string {
	if r.Class == record.Gap {
		return r.Proxy
	}
	w := r.Workload
	name := w.Name
	if name == "" {
		name = w.ServiceAccount
	}
	if w == (record.Workload{}) && r.Claim != "" {
		return claimed(r.Claim)
	}
	if w.Namespace == "" && name == "" {
		return w.Principal
	}
	return w.Namespace + "/" + name
}

// claimed is a SPIFFE id that one proxy alone vouches for: "NAMESPACE/ACCOUNT?".
func claimed(id string) string {
	if _, rest, ok := strings.Cut(id, "/ns/"); ok {
		return strings.Replace(rest, "/sa/", "/", 1) + "?"
	}
	return id + "?"
}

func port(r *record.Record) string {
	if r.Port == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(r.Port), 10)
}

func request(r *record.Record) string {
	if r.Method == "" {
		return r.Protocol
	}
	if r.Status == 0 {
		return r.Method
	}
	return r.Method + " " + strconv.FormatUint(uint64(r.Status), 10)
}

func decidedBy(r *record.Record) string { return object(r.DecidedBy) }

// object is KIND NS/NAME RULE.
func object(o record.Object) string {
	if o == (record.Object{}) {
		return ""
	}
	name := strings.Trim(o.Kind+" "+strings.Trim(o.Namespace+"/"+o.Name, "/"), " ")
	if o.Rule != "" {
		name += " " + o.Rule
	}
	return name
}

// reason is why, with the policies' rules that it met beside.
func reason(r *record.Record) string {
	if r.Class == record.Gap {
		return fmt.Sprintf("%d records lost: %s", r.Count, r.Reason)
	}
	if r.Class == record.Action {
		return r.Deed()
	}
	text := r.Reason
	if by := object(r.AllowedBy); by != "" {
		text += "; allowed by " + by
	}
	if by := object(r.WouldDeny); by != "" {
		text += "; would be denied by " + by
	}
	return strings.TrimPrefix(text, "; ")
}
