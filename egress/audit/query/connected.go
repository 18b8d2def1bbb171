package query

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/presence"
)

// Connected asks the audit server of a log which proxies controllers say are connected. Where nobody knows, they are nil, and why says so, for people.
func Connected(ctx context.Context, s Source) (proxies []presence.Proxy, why string, err error) {
	to, ok := s.(remote)
	if !ok {
		return nil, "no audit server runs on this log, which controllers tell what proxies are connected", nil
	}
	proxies, some, err := presence.Ask(ctx, to.conn)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, "the audit server is of an older version, which controllers do not tell what proxies are connected", nil
	case err != nil:
		return nil, "", fmt.Errorf("audit query: %w", err)
	case !some:
		return nil, "no controller has told the audit server in the last minutes which proxies are connected", nil
	case proxies == nil:
		proxies = []presence.Proxy{}
	}
	return proxies, "", nil
}
