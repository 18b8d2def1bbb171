package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/detect"
)

// findingsPage is what detections found when they looked last.
type findingsPage struct {
	Looks  bool
	Report *detect.Report
	List   []finding
	More   int // that are not shown
}

// finding is one of them, and where it leads.
type finding struct {
	detect.Finding
	Who      string
	Evidence []string
	Link     string
}

// mostFindings are shown.
const mostFindings = 300

func (h *handler) findingsPage(ctx context.Context, _ *http.Request, _ asked) (view, error) {
	p := findingsPage{Looks: h.Found != nil}
	if p.Looks {
		p.Report = h.found(ctx)
	}
	if p.Report != nil {
		p.More = max(0, len(p.Report.Findings)-mostFindings)
		for _, f := range sharesOf(p.Report.Findings, mostFindings) {
			p.List = append(p.List, show(f))
		}
	}
	return view{Template: "findings", Title: "Findings", Fixed: true, Data: p}, nil
}

// sharesOf keeps so many findings, with room for each namespace's.
func sharesOf(findings []detect.Finding, most int) []detect.Finding {
	return shares(findings, most, func(f *detect.Finding) string { return f.Namespace })
}

func show(f detect.Finding) finding {
	out := finding{Finding: f, Who: strings.Trim(f.Namespace+"/"+f.Workload, "/")}
	for _, name := range slices.Sorted(maps.Keys(f.Evidence)) {
		out.Evidence = append(out.Evidence, visible.Text(fmt.Sprintf("%s: %v", strings.ReplaceAll(name, "_", " "), f.Evidence[name])))
	}
	e := query.Expression{Since: iso(f.First), Until: iso(f.Last.Add(around))}
	if f.Namespace != "" {
		e = e.With(like("workload", query.Literally(f.Namespace+"/"+f.Workload)+"*"))
	}
	if f.Host != "" {
		e = e.With(below("host", f.Host))
	}
	out.Link = link("/log", e)
	return out
}
