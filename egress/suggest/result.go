package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/seen"
)

// Result is what is suggested.
type Result struct {
	Log     *seen.Log
	Changes []Change
	LeftOut []LeftOut
	NotTold uint64 // records of what is left out beyond those
	Notes   []string
	left    map[LeftOut]int // without records: where it is
}

// Change is an object that is to be made, changed or removed.
type Change struct {
	Before, After *config.Object // nil: is not there
	Notes         []string       // of what is said here nothing is a client's text
	Evidence      []Line
}

// Key is the object's.
func (c *Change) Key() config.Key {
	if c.After != nil {
		return c.After.Key
	}
	return c.Before.Key
}

// Action is create, change or remove.
func (c *Change) Action() string {
	switch {
	case c.Before == nil:
		return "create"
	case c.After == nil:
		return "remove"
	default:
		return "change"
	}
}

// Line is evidence: what a sort of workloads did with a host and port.
type Line struct {
	Workload string // NAMESPACE/SERVICEACCOUNT
	Host     string
	Port     uint32
	Protocol string
	Verdict  string
	seen.Evidence
}

// LeftOut is what was seen and nothing is suggested for.
type LeftOut struct {
	Workload string `json:"workload"`
	Host     string `json:"host"` // fit to be shown
	Port     uint32 `json:"port,omitempty"`
	Why      string `json:"why"`
	Records  uint64 `json:"records"`
}

func workloadOf(f *seen.Flow) string {
	name := f.Namespace + "/" + f.Account
	if wrongWorkload(f) != "" {
		return fmt.Sprintf("%+q", name)
	}
	return name
}

func lineOf(f *seen.Flow) Line {
	return Line{Workload: workloadOf(f), Host: f.Host, Port: f.Port, Protocol: f.Protocol, Verdict: string(f.Verdict), Evidence: f.Evidence}
}

// lines adds up what is of the same workloads, hosts, ports and protocols, in order.
func lines(flows []*seen.Flow) (out []Line) {
	sorted, told := slices.Clone(flows), map[*seen.Flow]bool{}
	slices.SortStableFunc(sorted, func(a, b *seen.Flow) int { return lineOf(a).compare(lineOf(b)) })
	for _, f := range sorted {
		if told[f] {
			continue
		}
		told[f] = true
		l := lineOf(f)
		if n := len(out); n > 0 && out[n-1].compare(l) == 0 {
			out[n-1].Add(&l.Evidence)
			continue
		}
		var own seen.Evidence // not the flow's: it is added to
		own.Add(&l.Evidence)
		l.Evidence = own
		out = append(out, l)
	}
	return out
}

func (l Line) compare(o Line) int {
	return cmp.Or(strings.Compare(l.Workload, o.Workload), strings.Compare(l.Host, o.Host), cmp.Compare(l.Port, o.Port),
		strings.Compare(l.Protocol, o.Protocol), strings.Compare(l.Verdict, o.Verdict))
}

// mostLeftOut bounds what is told one by one.
const mostLeftOut = 1000

// leave notes what nothing is suggested for, once for each workload, host and port.
func (r *Result) leave(f *seen.Flow, why string) {
	l := LeftOut{workloadOf(f), shown(f.Host), f.Port, why, 0}
	at, known := r.left[l]
	if !known {
		if at = len(r.LeftOut); at == mostLeftOut {
			r.NotTold += f.Records
			return
		}
		if r.left == nil {
			r.left = map[LeftOut]int{}
		}
		r.left[l] = at
		r.LeftOut = append(r.LeftOut, l)
	}
	r.LeftOut[at].Records += f.Records
}

func (r *Result) sort() {
	slices.SortFunc(r.LeftOut, func(a, b LeftOut) int {
		return cmp.Or(strings.Compare(a.Workload, b.Workload), strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), strings.Compare(a.Why, b.Why))
	})
	slices.SortFunc(r.Changes, func(a, b Change) int { // registrations come before policies that are about them
		return cmp.Or(-cmp.Compare(a.Key().Kind, b.Key().Kind), a.Key().Compare(b.Key()))
	})
}
