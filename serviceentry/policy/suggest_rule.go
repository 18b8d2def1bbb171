package policy

import (
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// ruleFor is the rule that allows what a policy denies, and no more, with a comment that says where it goes; "" where the request is
// denied for its path's sake, which is to be mended in the request.
func ruleFor(d Destination, v Verdict) string {
	r, a := v.Ruling, v.Asked
	if r.Path || r.Unknown || r.Unregistered {
		return ""
	}
	var out strings.Builder
	place := "after its other rules"
	if r.Rule != nil {
		place = "before rule " + r.Rule.Name
	}
	fmt.Fprintf(&out, "# in spec.rules of %s, %s\n- hosts: [%q]\n  ports: [%d]\n", r.Policy.Key, place, a.Host, a.Port)
	if a.Protocol == egresspolicy.HTTP && d.Path != "" {
		fmt.Fprintf(&out, "  methods: [%s]\n", a.Method)
		if egresspolicy.IsNormal(a.Path) && !strings.Contains(a.Path, "*") {
			fmt.Fprintf(&out, "  paths: [%q]\n", a.Path)
		}
	} else {
		fmt.Fprintf(&out, "  protocols: [%s]\n", a.Protocol)
	}
	out.WriteString("  action: Allow\n")
	return out.String()
}
