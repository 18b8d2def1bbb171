package redirect

import (
	"fmt"
	"strings"
)

// Text is the plan as input for iptables-restore --noflush, IPv4 first. What iptables cannot do is in comments, as the ip
// commands that would do it.
func (p Plan) Text() string {
	var b strings.Builder
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "# Note: %s\n", note)
	}
	for _, f := range p.Families {
		fmt.Fprintf(&b, "# %s --noflush\n", f.Family.pick("IPv4: iptables-restore", "IPv6: ip6tables-restore"))
		b.WriteString(f.Text())
	}
	return b.String()
}

// Text is the family's part of the plan.
func (f FamilyPlan) Text() string {
	var b strings.Builder
	ip := f.Family.pick("ip -4", "ip -6")
	for _, a := range f.Addresses {
		fmt.Fprintf(&b, "# %s addr add %s dev lo\n", ip, a)
	}
	if d := f.Divert; d != nil {
		fmt.Fprintf(&b, "# %s rule add fwmark %d lookup %d\n", ip, d.Mark, d.Table)
		fmt.Fprintf(&b, "# %s route add local default dev lo table %d\n", ip, d.Table)
	}
	b.WriteString(diff(saved{}, f.Tables))
	return b.String()
}
