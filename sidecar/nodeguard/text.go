package nodeguard

import (
	"fmt"
	"strings"
)

// Text is the plan as nft lists it and reads it (nft -f).
func (p Plan) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", Table)
	for _, c := range Counters {
		fmt.Fprintf(&b, "\tcounter %s {\n\t\tpackets 0 bytes 0\n\t}\n\n", c)
	}
	for _, s := range p.Sets {
		b.WriteString(s.text())
	}
	for i, c := range p.Chains {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(c.text())
	}
	b.WriteString("}\n")
	return b.String()
}

func (s Set) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\tset %s {\n\t\ttype ipv%s_addr\n", s.Name, suffix(s.IPv6))
	if s.Interval {
		b.WriteString("\t\tflags interval\n")
	}
	if s.Counted {
		b.WriteString("\t\tcounter\n")
	}
	for i, e := range s.Elements {
		text := e.String()
		if e.IsSingleIP() {
			text = e.Addr().String()
		}
		if s.Counted {
			text += " counter packets 0 bytes 0"
		}
		switch {
		case i == 0:
			text = "\t\telements = { " + text
		default:
			text = "\t\t\t     " + text
		}
		b.WriteString(text)
		if i < len(s.Elements)-1 {
			b.WriteString(",\n")
		} else {
			b.WriteString(" }\n")
		}
	}
	b.WriteString("\t}\n\n")
	return b.String()
}

func (c Chain) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
	if c.Hook != "" {
		fmt.Fprintf(&b, "\t\ttype filter hook %s priority filter - %d; policy accept;\n", c.Hook, -Priority)
	}
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "\t\t%s\n", r.Text())
	}
	b.WriteString("\t}\n")
	return b.String()
}

// Text is the rule in nft's words.
func (r Rule) Text() string {
	var words []string
	for _, t := range r.Terms {
		words = append(words, t.text())
	}
	return strings.Join(words, " ") + fmt.Sprintf(" comment %q", r.Comment)
}

func (t Term) text() string {
	switch t.Kind {
	case Reply:
		return "ct direction reply"
	case Source4:
		return "ip saddr @" + t.Arg
	case Source6:
		return "ip6 saddr @" + t.Arg
	case Destination4:
		return "ip daddr @" + t.Arg
	case Destination6:
		return "ip6 daddr @" + t.Arg
	case NoWayBack:
		return "fib saddr . iif oif missing"
	case NodesOwn:
		return "fib saddr type local"
	case TCP:
		return "meta l4proto tcp"
	case Count:
		return fmt.Sprintf("counter name %q", t.Arg)
	case Sample:
		return fmt.Sprintf("limit rate %d/second burst %d packets log prefix %q group %d snaplen %d", LogPerSecond, LogBurst, t.Arg, LogGroup, LogBytes)
	case RejectReset:
		return "reject with tcp reset"
	case RejectProhibited:
		return "reject with icmpx admin-prohibited"
	case Drop:
		return "drop"
	case Accept:
		return "accept"
	default:
		return "goto " + t.Arg
	}
}
