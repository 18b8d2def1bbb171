package mesh

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Policy is the sallyport.policy block: what the mesh's owner asks of EgressPolicies.
type Policy struct {
	Require Require
	// Expected has proxies keep an eye on requests under way before there is any policy, so that the mesh's first one ends those that it denies, too. It costs each request what policies do without
	// their rules.
	Expected bool
}

// Require is what rules that allow must say. The zero value asks for nothing.
type Require struct {
	Reason, Owner, Ticket, Expires bool
	// Within is how long such a rule may last from when it is written, or begins; 0 is without a bound.
	Within time.Duration
}

const requireForms = `write reason, owner, ticket, expires, or expires<=90d`

// policy reads sallyport.policy.
func (b *block) policy(tree any) (p Policy) {
	in := b.fields("sallyport.policy", tree, "require", "expected")
	p.Expected = b.yes("sallyport.policy.expected", in["expected"])
	for at, item := range b.texts("sallyport.policy.require", in["require"]) {
		switch name, within, bounded := strings.Cut(item, "<="); {
		case bounded && strings.TrimSpace(name) == "expires":
			p.Require.Expires, p.Require.Within = true, b.days(at, item, strings.TrimSpace(within))
		case item == "reason":
			p.Require.Reason = true
		case item == "owner":
			p.Require.Owner = true
		case item == "ticket":
			p.Require.Ticket = true
		case item == "expires":
			p.Require.Expires = true
		default:
			b.add(at, item, "is nothing that can be required", requireForms)
		}
	}
	return p
}

// maxDays is longer than anybody plans.
const maxDays = 36500

// days reads whole days ("90d"), or a duration as elsewhere ("36h").
func (b *block) days(at, item, text string) time.Duration {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(number); err == nil && n > 0 && n <= maxDays {
			return time.Duration(n) * 24 * time.Hour
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	b.add(at, item, fmt.Sprintf("%q is no length of time", text), `write days or hours, as in "expires<=90d"`)
	return 0
}
