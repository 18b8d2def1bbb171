package envoylog

import (
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// deniedToken says whether the request's token was not good. Which object asks for that the control plane adds.
func (r *entry) deniedToken(details string) bool {
	why, is := wire.TokenReason(details)
	if is {
		r.deny(r.pathDenied(), why)
		r.DecidedBy = record.Object{Kind: record.RequestAuthentication}
	}
	return is
}
