package relay

import (
	"context"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/xds/ondemand"
)

// demand is one stream on which Envoy asks for clusters by name.
type demand struct {
	from    *OnDemand
	sent    map[string]string // the names asked for → the version that Envoy was sent, absentVersion for "there is none"
	changed chan struct{}     // something may differ from sent
	nonce   uint64
	waits   map[string][]string // of an answer, by its nonce, until Envoy's word about it: the endpoints that its clusters ask for
}

func newDemand(from *OnDemand) *demand {
	return &demand{from: from, sent: map[string]string{}, changed: make(chan struct{}, 1), waits: map[string][]string{}}
}

// Versions that no resource has.
const (
	unsentVersion = ""
	absentVersion = "-"
)

// poke notes that the set of clusters changed.
func (d *demand) poke() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *demand) serve(ctx context.Context, stream grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	requests, ended := make(chan *discoveryv3.DeltaDiscoveryRequest), make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- req:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return err
		case req := <-requests:
			if endpoints := d.request(req); len(endpoints) > 0 {
				if err := d.from.warm(ctx, endpoints); err != nil {
					return err
				}
			}
		case <-d.changed:
		}
		resp, err := d.response(ctx)
		if err != nil {
			return err
		}
		if resp == nil {
			continue
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// request takes subscriptions, and Envoy's word. A name that is asked for again is sent again. It gives the endpoints that what Envoy has taken waits for.
func (d *demand) request(req *discoveryv3.DeltaDiscoveryRequest) (endpoints []string) {
	endpoints = d.waits[req.GetResponseNonce()]
	delete(d.waits, req.GetResponseNonce())
	if why := req.GetErrorDetail(); why != nil {
		d.from.log.Error("Envoy refused a cluster that it asked for", "reason", why.GetMessage())
		endpoints = nil
	}
	for name, version := range req.GetInitialResourceVersions() {
		d.sent[name] = version
	}
	for _, name := range req.GetResourceNamesSubscribe() {
		if _, known := req.GetInitialResourceVersions()[name]; !known && name != wildcard {
			d.sent[name] = unsentVersion
		}
	}
	for _, name := range req.GetResourceNamesUnsubscribe() {
		delete(d.sent, name)
	}
	return endpoints
}

// response gives what differs from what was sent; nil for nothing.
func (d *demand) response(ctx context.Context) (*discoveryv3.DeltaDiscoveryResponse, error) {
	out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType}
	var endpoints []string
	for name, has := range d.sent {
		switch now := d.from.version(name); {
		case now == has && has != unsentVersion, now == "" && has == absentVersion:
		case now == "":
			out.RemovedResources = append(out.RemovedResources, name)
			d.sent[name] = absentVersion
		default:
			r, err := d.from.body(ctx, name)
			if err != nil {
				return nil, err
			}
			if r == nil { // it went meanwhile: the change that says so is on its way
				continue
			}
			out.Resources = append(out.Resources, r)
			d.sent[name] = r.GetVersion()
			if its := ondemand.EndpointsOf(r.GetResource().GetValue()); its != "" {
				endpoints = append(endpoints, its)
			}
		}
	}
	if len(out.Resources)+len(out.RemovedResources) == 0 {
		return nil, nil
	}
	d.nonce++
	out.Nonce = strconv.FormatUint(d.nonce, 10)
	if len(endpoints) > 0 {
		d.waits[out.Nonce] = endpoints
	}
	return out, nil
}
