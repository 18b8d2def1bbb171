package kernel

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// Differs says where the kernel does not hold the plan, or "" where it does. Rules are told by their comments: whoever
// changes one on purpose is root, and no guard helps against that.
func (t *Table) Differs(p nodeguard.Plan) (string, error) {
	c, err := t.open()
	if err != nil {
		return "", explain(err)
	}
	there, err := find(c)
	switch {
	case err != nil:
		return "", explain(err)
	case there == nil:
		return "the table is gone", nil
	case there.Flags != 0: // dormant, for one: its chains are not called
		return "the table is switched off", nil
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return "", explain(err)
	}
	for _, want := range p.Chains {
		have := slices.IndexFunc(chains, func(have *nftables.Chain) bool {
			return have.Table.Name == nodeguard.Table && have.Name == want.Name
		})
		if have < 0 {
			return "the chain " + want.Name + " is gone", nil
		}
		if hooked := chains[have].Hooknum != nil; hooked != (want.Hook != "") || hooked && *chains[have].Hooknum != *hooks[want.Hook] {
			return "the chain " + want.Name + " is hooked elsewhere", nil
		}
		rules, err := c.GetRules(table, chainOf(want))
		if err != nil {
			return "", explain(err)
		}
		if !slices.EqualFunc(rules, want.Rules, sameRule) {
			return "the chain " + want.Name + " has other rules", nil
		}
	}
	for _, want := range p.Sets {
		have, err := c.GetSetElements(setOf(want))
		if err != nil {
			return "", explain(fmt.Errorf("set %s: %w", want.Name, err))
		}
		if !sameElements(have, elements(want, want.Elements)) {
			return "the set " + want.Name + " has other elements", nil
		}
	}
	return "", nil
}

func sameRule(have *nftables.Rule, want nodeguard.Rule) bool {
	comment, _ := userdata.GetString(have.UserData, userdata.TypeComment)
	return comment == want.Comment
}

// sameElements compares in the order of keys. An empty set of intervals may be listed with an end before everything.
func sameElements(have, want []nftables.SetElement) bool {
	have = slices.DeleteFunc(have, func(e nftables.SetElement) bool {
		return e.IntervalEnd && !slices.ContainsFunc(e.Key, func(b byte) bool { return b != 0 })
	})
	order := func(a, b nftables.SetElement) int {
		if c := bytes.Compare(a.Key, b.Key); c != 0 || a.IntervalEnd == b.IntervalEnd {
			return c
		}
		if a.IntervalEnd {
			return -1
		}
		return 1
	}
	slices.SortFunc(have, order)
	slices.SortFunc(want, order)
	return slices.EqualFunc(have, want, func(a, b nftables.SetElement) bool { return order(a, b) == 0 })
}

// Count is packets and bytes.
type Count struct{ Packets, Bytes uint64 }

// Counts is what the table counted since it was written.
type Counts struct {
	Refused map[netip.Addr]Count // by guarded pods' addresses
	Named   map[string]Count     // by the names of nodeguard.Counters
}

// Counts reads the counters. Without the table there are none.
func (t *Table) Counts() (Counts, error) {
	counts := Counts{Refused: map[netip.Addr]Count{}, Named: map[string]Count{}}
	c, err := t.open()
	if err != nil {
		return counts, explain(err)
	}
	if there, err := find(c); err != nil || there == nil {
		return counts, explain(err)
	}
	for _, six := range []bool{false, true} {
		set := setOf(nodeguard.Set{Name: nodeguard.SetRefused + map[bool]string{false: "4", true: "6"}[six], IPv6: six})
		list, err := c.GetSetElements(set)
		if err != nil {
			return counts, explain(fmt.Errorf("set %s: %w", set.Name, err))
		}
		for _, e := range list {
			if a, ok := netip.AddrFromSlice(e.Key); ok && e.Counter != nil {
				counts.Refused[a] = Count{Packets: e.Counter.Packets, Bytes: e.Counter.Bytes}
			}
		}
	}
	objects, err := c.GetObjects(table)
	if err != nil {
		return counts, explain(err)
	}
	for _, o := range objects {
		if counter, ok := o.(*nftables.CounterObj); ok {
			counts.Named[counter.Name] = Count{Packets: counter.Packets, Bytes: counter.Bytes}
		}
	}
	return counts, nil
}
