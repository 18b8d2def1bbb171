package redirect

import (
	"fmt"
	"slices"
	"strings"
)

// diff is the input for iptables-restore --noflush that turns what is there into the plan's tables; "" if it is that already.
//
// Each table is one transaction: chains are flushed and filled again, and jumps added, in one step that packets never see
// half done. Tables that the plan fills come first, so that going from one mode to the other leaves no moment without
// rules; tables that it no longer uses are emptied last.
func diff(have saved, want []Table) string {
	var fill, empty strings.Builder
	for _, name := range tableOrder {
		i := slices.IndexFunc(want, func(t Table) bool { return t.Name == name })
		there := have[name]
		if there == nil {
			there = &savedTable{}
		}
		if i >= 0 {
			diffTable(&fill, there, want[i])
		}
	}
	for _, name := range slices.Backward(tableOrder) {
		there := have[name]
		if there != nil && !slices.ContainsFunc(want, func(t Table) bool { return t.Name == name }) {
			diffTable(&empty, there, Table{Name: name})
		}
	}
	return fill.String() + empty.String()
}

// diffTable writes one table's part, or nothing if the table is as wanted.
func diffTable(b *strings.Builder, there *savedTable, want Table) {
	var stale []string
	for _, name := range ours {
		_, exists := there.chains[name]
		if exists && !slices.ContainsFunc(want.Chains, func(c Chain) bool { return c.Name == name }) {
			stale = append(stale, name)
		}
	}
	var changed []Chain
	for _, c := range want.Chains {
		if rules, exists := there.chains[c.Name]; !exists || !slices.Equal(rules, c.Rules) {
			changed = append(changed, c)
		}
	}
	remove, add := diffJumps(there.jumps, want.Jumps)
	if len(stale)+len(changed)+len(remove)+len(add) == 0 {
		return
	}
	fmt.Fprintf(b, "*%s\n", want.Name)
	// Naming a chain that exists flushes it.
	for _, c := range changed {
		fmt.Fprintf(b, ":%s - [0:0]\n", c.Name)
	}
	for _, name := range stale {
		fmt.Fprintf(b, ":%s - [0:0]\n", name)
	}
	for _, c := range changed {
		for _, rule := range c.Rules {
			fmt.Fprintf(b, "-A %s %s\n", c.Name, rule)
		}
	}
	for _, j := range remove {
		fmt.Fprintf(b, "-D %s %s\n", j.From, j.Rule)
	}
	for _, j := range add {
		fmt.Fprintf(b, "-A %s %s\n", j.From, j.Rule)
	}
	for _, name := range stale {
		fmt.Fprintf(b, "-X %s\n", name)
	}
	b.WriteString("COMMIT\n")
}

// diffJumps says which jumps are too many and which are missing. One that is there stays where it is among other
// people's rules.
func diffJumps(have, want []Jump) (remove, add []Jump) {
	missing := slices.Clone(want)
	for _, j := range have {
		if i := slices.Index(missing, j); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
		} else {
			remove = append(remove, j)
		}
	}
	return remove, missing
}

// sameShape tells whether the kernel holds the plan's chains with as many rules as planned, and its jumps. It stands in for
// equality where an iptables version words a rule differently from the plan.
func sameShape(have saved, want []Table) bool {
	for _, name := range tableOrder {
		t := Table{Name: name}
		if i := slices.IndexFunc(want, func(t Table) bool { return t.Name == name }); i >= 0 {
			t = want[i]
		}
		there := have[name]
		if there == nil {
			there = &savedTable{}
		}
		if len(there.chains) != len(t.Chains) || len(there.jumps) != len(t.Jumps) {
			return false
		}
		for _, c := range t.Chains {
			if rules, exists := there.chains[c.Name]; !exists || len(rules) != len(c.Rules) {
				return false
			}
		}
	}
	return true
}
