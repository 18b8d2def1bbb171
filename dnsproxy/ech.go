package dnsproxy

import (
	"slices"

	"github.com/miekg/dns"
)

// stripECH takes the parameter "ech" out of SVCB and HTTPS records (RFC 9460), wherever they are in the message. A record
// that names it as mandatory, which nobody may use without it, goes as a whole.
func stripECH(msg *dns.Msg) {
	changed := false
	for _, section := range []*[]dns.RR{&msg.Answer, &msg.Ns, &msg.Extra} {
		*section = slices.DeleteFunc(*section, func(rr dns.RR) bool {
			var svcb *dns.SVCB
			switch rr := rr.(type) {
			case *dns.SVCB:
				svcb = rr
			case *dns.HTTPS:
				svcb = &rr.SVCB
			default:
				return false
			}
			had := len(svcb.Value)
			svcb.Value = slices.DeleteFunc(svcb.Value, func(pair dns.SVCBKeyValue) bool { return pair.Key() == dns.SVCB_ECHCONFIG })
			if len(svcb.Value) == had {
				return false
			}
			changed = true
			return slices.ContainsFunc(svcb.Value, needsECH)
		})
	}
	if !changed {
		return
	}
	msg.AuthenticatedData = false // what is left is not what was signed
	for _, section := range []*[]dns.RR{&msg.Answer, &msg.Ns, &msg.Extra} {
		*section = slices.DeleteFunc(*section, func(rr dns.RR) bool {
			sig, ok := rr.(*dns.RRSIG)
			return ok && (sig.TypeCovered == dns.TypeSVCB || sig.TypeCovered == dns.TypeHTTPS)
		})
	}
}

// needsECH tells whether a parameter says that the record is of no use to who does not use "ech".
func needsECH(pair dns.SVCBKeyValue) bool {
	mandatory, ok := pair.(*dns.SVCBMandatory)
	return ok && slices.Contains(mandatory.Code, dns.SVCB_ECHCONFIG)
}
