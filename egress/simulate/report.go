package simulate

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// Report is the answer, as `simulate -o json` prints it. An input is distinct by who asked (namespace, account, workload, labels), for what
// (host, port, protocol, method, path) and by which address; replicas of a workload are one.
type Report struct {
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until"`
	Records  uint64    `json:"records"`  // of the inputs
	Distinct int       `json:"distinct"` // inputs
	// NewlyDenied are inputs that are allowed now and would be denied, NewlyAllowed those the other way round, and WouldDeny those that
	// would be allowed, and denied if the policies that are observed were enforced, which now they would not.
	NewlyDenied  []Change `json:"newlyDenied"`
	NewlyAllowed []Change `json:"newlyAllowed"`
	WouldDeny    []Change `json:"wouldDeny"`
	// Inputs are how many of them there are in each list, and in what is not listed.
	Inputs Totals `json:"inputs"`
	// NotListed is how many of those are not listed: there is room for 10,000 changes of each kind.
	NotListed int `json:"notListed"`
	// NotReproducible is of how many inputs no answer can be given, and Why says why not. An input of which some records are as they would be
	// now, and older ones are not, has its answer; those records are counted in Why.
	NotReproducible int    `json:"notReproducible"`
	Why             []Why  `json:"notReproducibleWhy"`
	Gaps            uint64 `json:"gaps"` // records that are missing in the log
}

// Totals are numbers of inputs.
type Totals struct {
	NewlyDenied  int `json:"newlyDenied"`
	NewlyAllowed int `json:"newlyAllowed"`
	WouldDeny    int `json:"wouldDeny"`
}

// Change is what becomes of the inputs of one workload for one port of a host, by the same objects.
type Change struct {
	Workload Workload  `json:"workload"`
	Host     string    `json:"host"`
	Port     uint32    `json:"port"`     // 0 of names
	Protocol string    `json:"protocol"` // http, tls, tcp, or dns of a name that is asked for
	Inputs   int       `json:"inputs"`
	Records  uint64    `json:"records"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Before   Side      `json:"before"`
	After    Side      `json:"after"`
	Examples []Example `json:"examples"` // those with the most records
}

// Workload is who asked.
type Workload struct {
	Namespace      string `json:"namespace"`
	ServiceAccount string `json:"serviceAccount"`
	Name           string `json:"name"`
}

// String is NAMESPACE/NAME, of the account where the name is not known.
func (w Workload) String() string { return w.Namespace + "/" + cmp.Or(w.Name, w.ServiceAccount) }

// Side is what a configuration says.
type Side struct {
	Verdict   string           `json:"verdict"` // allow or deny
	Path      string           `json:"path"`
	DecidedBy policy.DecidedBy `json:"decidedBy"`
	Reason    string           `json:"reason"`
}

// Example is one input.
type Example struct {
	Method  string `json:"method,omitempty"`
	Path    string `json:"path,omitempty"`
	Labels  string `json:"labels,omitempty"`
	Dialled string `json:"dialled,omitempty"`
	Records uint64 `json:"records"`
}

// Why is a reason for which inputs are not reproducible.
type Why struct {
	Why      string   `json:"why"`
	Inputs   int      `json:"inputs"`
	Records  uint64   `json:"records"`
	Examples []string `json:"examples"` // of the inputs, where there are any; else of the records
	own      bool     // they are of inputs
}

// Notes are what no report can say.
var Notes = []string{
	"What a denial would have prevented is not known: clients may have asked for other things next.",
	"Only what was asked for in this time is looked at. Numbers are those of whole days, of UTC.",
	"A request that a route led to another host is known by the host that it went to.",
	"What workloads ask of the mesh's own Services is in the log with sallyport.audit.mesh: all; otherwise what was denied, and what failed.",
}

// sideOf writes a verdict down; would says that of what the policies that are observed would do.
func sideOf(v policy.Verdict, would bool) Side {
	s := Side{"deny", v.Path, policy.DecidedBy{Kind: string(v.DecidedBy.Kind), Namespace: v.DecidedBy.Namespace, Name: v.DecidedBy.Name, Rule: v.DecidedBy.Rule}, v.Reason}
	r := v.Ruling
	if would {
		r = v.WouldDeny
	}
	if v.Allowed {
		s.Verdict = "allow"
	}
	if r != nil {
		s.DecidedBy = policy.DecidedBy{Kind: string(r.Policy.Key.Kind), Namespace: r.Policy.Key.Namespace, Name: r.Policy.Key.Name, Rule: r.RuleName()}
	}
	if would && r != nil {
		s.Reason = "allowed, since the policy is observed only"
	}
	return s
}

// What a report holds at most.
const (
	maxChanges  = 10_000 // in each list
	maxExamples = 3
	maxWhys     = 1000
)

// mergeExample keeps those with the most records.
func mergeExample(list []Example, x Example) []Example {
	list = append(list, x)
	slices.SortFunc(list, func(a, b Example) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	return list[:min(len(list), maxExamples)]
}

// describe says in a line what was asked.
func describe(a *asked) string {
	w := Workload{a.Namespace, a.ServiceAccount, a.Workload}
	text := fmt.Sprintf("%s → %s://%s%s", w, cmp.Or(a.Protocol, string(record.Network)), target(a.Host, a.Port), a.URLPath)
	if a.Method != "" {
		text += " (" + a.Method + ")"
	}
	return text
}

// target is HOST:PORT, or the host alone of what has no port.
func target(host string, port uint32) string {
	if port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}
