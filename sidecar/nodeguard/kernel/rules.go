package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

var hooks = map[string]*nftables.ChainHook{"forward": nftables.ChainHookForward, "output": nftables.ChainHookOutput}

// addChains adds all chains before their rules, which go from one to the other.
func addChains(c *nftables.Conn, chains []nodeguard.Chain, sets map[string]*nftables.Set) error {
	for _, chain := range chains {
		c.AddChain(chainOf(chain))
	}
	for _, chain := range chains {
		for _, r := range chain.Rules {
			rule := &nftables.Rule{
				Table: table, Chain: &nftables.Chain{Name: chain.Name, Table: table},
				UserData: userdata.AppendString(nil, userdata.TypeComment, r.Comment),
			}
			for _, term := range r.Terms {
				expressions, err := expressionsOf(term, sets)
				if err != nil {
					return fmt.Errorf("chain %s: %s: %w", chain.Name, r.Text(), err)
				}
				rule.Exprs = append(rule.Exprs, expressions...)
			}
			c.AddRule(rule)
		}
	}
	return nil
}

func chainOf(chain nodeguard.Chain) *nftables.Chain {
	c := &nftables.Chain{Name: chain.Name, Table: table}
	if chain.Hook != "" {
		policy := nftables.ChainPolicyAccept
		c.Type, c.Hooknum, c.Policy = nftables.ChainTypeFilter, hooks[chain.Hook], &policy
		c.Priority = nftables.ChainPriorityRef(nodeguard.Priority)
	}
	return c
}

// Where addresses are in IP headers: offset and length in bytes (RFC 791, RFC 8200).
var addresses = map[nodeguard.Kind][2]uint32{
	nodeguard.Source4: {12, 4}, nodeguard.Destination4: {16, 4}, nodeguard.Source6: {8, 16}, nodeguard.Destination6: {24, 16},
}

// register is where a value is kept between two expressions.
const register = 1

// expressionsOf writes a term in the kernel's terms.
func expressionsOf(t nodeguard.Term, sets map[string]*nftables.Set) ([]expr.Any, error) {
	equal := func(value ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: value} }
	switch t.Kind {
	case nodeguard.Reply:
		return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: register}, equal(1)}, nil
	case nodeguard.Source4, nodeguard.Destination4, nodeguard.Source6, nodeguard.Destination6:
		set, ok := sets[t.Arg]
		if !ok {
			return nil, fmt.Errorf("there is no set %q", t.Arg)
		}
		family := byte(unix.NFPROTO_IPV4)
		if set.KeyType.Bytes == 16 {
			family = unix.NFPROTO_IPV6
		}
		at := addresses[t.Kind]
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register}, equal(family),
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: at[0], Len: at[1]},
			&expr.Lookup{SourceRegister: register, SetName: set.Name, SetID: set.ID},
		}, nil
	case nodeguard.NoWayBack:
		return []expr.Any{
			&expr.Fib{Register: register, ResultOIF: true, FlagSADDR: true, FlagIIF: true, FlagPRESENT: true}, equal(0, 0, 0, 0),
		}, nil
	case nodeguard.NodesOwn:
		return []expr.Any{
			&expr.Fib{Register: register, ResultADDRTYPE: true, FlagSADDR: true}, equal(binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)...),
		}, nil
	case nodeguard.TCP:
		return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, equal(unix.IPPROTO_TCP)}, nil
	case nodeguard.Count:
		return []expr.Any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: t.Arg}}, nil
	case nodeguard.Sample:
		return []expr.Any{
			&expr.Limit{Type: expr.LimitTypePkts, Rate: nodeguard.LogPerSecond, Unit: expr.LimitTimeSecond, Burst: nodeguard.LogBurst},
			&expr.Log{
				Key:   1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_PREFIX | 1<<unix.NFTA_LOG_SNAPLEN,
				Group: nodeguard.LogGroup, Snaplen: nodeguard.LogBytes, Data: []byte(t.Arg),
			},
		}, nil
	case nodeguard.RejectReset:
		return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}, nil
	case nodeguard.RejectProhibited:
		return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}, nil
	case nodeguard.Drop:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}, nil
	case nodeguard.Accept:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}, nil
	case nodeguard.Goto:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: t.Arg}}, nil
	default:
		return nil, fmt.Errorf("there is no kind %d of terms", t.Kind)
	}
}
