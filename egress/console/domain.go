package console

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/sallyport/sallyport/egress/audit/query"
)

// domainOf is the registrable domain of a host, with the root's dot where the host has it; "" of what is of none: a public suffix, an address, or no name at all.
// Whatever ends in a dot and a domain is of that domain, or of one below it.
func domainOf(host string) string {
	name, dot := host, ""
	if strings.HasSuffix(host, ".") {
		name, dot = host[:len(host)-1], "."
	}
	if isAddress(name) {
		return ""
	}
	suffix, _ := publicsuffix.PublicSuffix(name)
	before, below := strings.CutSuffix(name, "."+suffix)
	last := suffix[strings.LastIndexByte(suffix, '.')+1:]
	if !below || strings.Trim(last, "0123456789") == "" { // numbers are addresses' parts
		return ""
	}
	return before[strings.LastIndexByte(before, '.')+1:] + "." + suffix + dot
}

// isAddress knows addresses of IP, as authorities have them.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}

func termsOfDomain(v string) []query.Term {
	if domainOf(v) != v || v == "" {
		return []query.Term{is("host", v)}
	}
	return []query.Term{below("host", v)}
}

// byDomain adds up hosts of one registrable domain. One that is below another one, as of those who rent names from somebody with names of his own, is added to
// that: whoever looks below a name looks at all of it.
func byDomain(hosts []group) (out []group) {
	of := make([]string, len(hosts))
	there := map[string]bool{}
	for i, x := range hosts {
		of[i] = domainOf(x.Value)
		there[of[i]] = of[i] != ""
	}
	at := map[string]int{}
	for i, x := range hosts {
		x.Value = above(cmp.Or(of[i], x.Value), there)
		n, known := at[x.Value]
		if !known {
			at[x.Value] = len(out)
			out = append(out, x)
			continue
		}
		o := &out[n]
		o.Records, o.Denied, o.Bytes, o.Others = plus(o.Records, x.Records), plus(o.Denied, x.Denied), plus(o.Bytes, x.Bytes), max(o.Others, x.Others)
		if x.First.Before(o.First) {
			o.First = x.First
		}
		if x.Last.After(o.Last) {
			o.Last = x.Last
		}
	}
	slices.SortStableFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), strings.Compare(a.Value, b.Value))
	})
	return out
}

// above is the domain that is above all others that are there, of those above a name, or the name.
func above(name string, there map[string]bool) string {
	top := name
	for rest, more := name, true; more; {
		if _, rest, more = strings.Cut(rest, "."); there[rest] {
			top = rest
		}
	}
	return top
}
