package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/sallyport/sallyport/dnsproxy/packet"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/xds/ondemand"
)

const (
	// fetchWait is how long a request or a connection to a host that was not used before waits until Envoy has what there is for it. Envoy
	// itself waits longer.
	fetchWait = 5 * time.Second
	// nameWait is the same of an answer by DNS. Who is answered without is held by Envoy.
	nameWait = time.Second
)

// fetches are Envoy's questions about what it has no row for (docs/adr/0035-fetch-on-use.md). The answer is that it may look again; where that
// would be wrong, it is that it must not go on.
type fetches struct {
	authv3.UnimplementedAuthorizationServer
	log  *slog.Logger
	use  func(ctx context.Context, table string, hosts ...string) error
	said atomic.Int64 // the second in which the log was told last: a pod may ask as often as it likes
}

// Check has Envoy get what there is for a host.
func (f *fetches) Check(ctx context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	attributes := req.GetAttributes()
	table, hosts := fetchedHosts(attributes)
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	if err := f.use(ctx, table, hosts...); err != nil {
		if now := time.Now().Unix(); f.said.Swap(now) != now {
			f.log.Warn("what there is for a host could not be had; the connection is closed", "table", table, "hosts", hosts, "err", err)
		}
		return closed(attributes.GetContextExtensions()[ondemand.FetchClosed], hosts, err), nil
	}
	if attributes.GetContextExtensions()[ondemand.FetchTwice] != "" {
		return closed("", hosts, errTwice), nil
	}
	ok := &authv3.OkHttpResponse{}
	if attributes.GetContextExtensions()[ondemand.FetchAuthority] != "" { // it stays the stream that it is, and has its row looked for anew by this
		ok.Headers = []*corev3.HeaderValueOption{{
			Header: &corev3.HeaderValue{Key: ondemand.FetchedHeader, Value: "yes"}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}}
	}
	return &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: int32(codes.OK)}, HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: ok},
	}, nil
}

// errTwice ends what has to come again by its client, see ondemand.FetchTwice.
var errTwice = errors.New("it is here now, and a request of gRPC-Web has to come again")

// fetchedHosts are the hosts that a question is about, as tables know them, and the table. A connection is asked about by its name, its address and
// the owner of the range that it is in at once.
func fetchedHosts(of *authv3.AttributeContext) (table string, hosts []string) {
	request := of.GetRequest().GetHttp()
	table, ofRequest := of.GetContextExtensions()[ondemand.FetchTable]
	if of.GetContextExtensions()[ondemand.FetchAuthority] != "" {
		return table, []string{strings.ToLower(request.GetHost())}
	}
	hosts = []string{bareHost(request.GetHost())}
	if ofRequest {
		return table, hosts
	}
	headers := request.GetHeaders()
	for _, name := range []string{ondemand.ToHeader, ondemand.RangeHeader} {
		if host := bareHost(headers[name]); host != "" && host != hosts[0] {
			hosts = append(hosts, host)
		}
	}
	return strings.TrimPrefix(headers[ondemand.TableHeader], ondemand.TablePrefix), hosts
}

// bareHost is an authority without its port, in lower case, as Envoy looks for it.
func bareHost(authority string) string {
	host := strings.ToLower(authority)
	if end := strings.LastIndexByte(host, ']'); end >= 0 {
		return host[:end+1]
	}
	host, _, _ = strings.Cut(host, ":")
	return host
}

// closed ends a request, or, with an answer, the connection that a question is about.
func closed(answer string, hosts []string, why error) *authv3.CheckResponse {
	denied := &authv3.DeniedHttpResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		Headers: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "retry-after", Value: "1"}}},
		Body:    fmt.Sprintf("sallyport: %s has not been used by this pod before, and what is registered for it could not be had: %v. Try again; if it stays so, look at the log of the pod's proxy.\n", hosts[0], why),
	}
	if body, err := base64.StdEncoding.DecodeString(answer); err == nil && answer != "" {
		denied = &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: http.StatusOK}, Body: string(body)}
	}
	return &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: int32(codes.Unavailable)}, HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: denied},
	}
}

// useName has what a name leads to given to Envoy before the name is answered. It has the shape of dnsproxy.View.Use.
func (r *resolver) useName(name []byte) func(context.Context) error {
	if r.relay == nil || !r.relay.Fetches() {
		return nil
	}
	wait := r.relay.Uses(packet.Text(name))
	if wait == nil {
		return nil
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, nameWait)
		defer cancel()
		if err := wait(ctx); errors.Is(err, relay.ErrAway) {
			return err
		}
		return nil // who comes before it is there is held by Envoy
	}
}
