package console

import (
	"html"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestGroupsLeadToTheirRecords: behind what is added up are the records that it counts, and no others, whatever they are added up by and where they say nothing.
func TestGroupsLeadToTheirRecords(t *testing.T) {
	records := slices.DeleteFunc(odd(), func(r record.Record) bool { return r.Class == record.Action }) // which are not added up
	for i, rule := range []string{"admins", "admins", "probes"} {
		r := records[0]
		r.Seq, r.Verdict, r.DecidedBy = uint64(100+i), record.Denied, record.Object{Kind: record.AuthorizationPolicy, Namespace: "n", Name: "who", Rule: rule}
		r.Workload = record.Workload{Namespace: "n", ServiceAccount: "s", Name: []string{"pod-1", "pod-2", ""}[i]}
		records = append(records, r)
	}
	h := served(t, records, nil)
	row := regexp.MustCompile(`</td>\n<td class="n"><a href="([^"]*)">(\d+)</a></td>`)
	shown := regexp.MustCompile(`(?:of (\d+)|>(\d+) records?), the newest first`)
	for _, d := range dimensions {
		rows := row.FindAllStringSubmatch(body(t, h, "/log?group="+d.Name), -1)
		if len(rows) == 0 {
			t.Errorf("by %s there is nothing", d.Name)
		}
		for _, x := range rows {
			at := html.UnescapeString(x[1])
			got := 0
			if m := shown.FindStringSubmatch(body(t, h, at)); m != nil {
				got, _ = strconv.Atoi(m[1] + m[2])
			}
			if strconv.Itoa(got) != x[2] {
				t.Errorf("by %s there are %s records, and %d behind %s", d.Name, x[2], got, at)
			}
		}
	}
}
