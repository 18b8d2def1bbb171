package controlplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/xds/wire"
)

// How often the audit server is told who is connected.
const (
	presenceLooks  = 5 * time.Second  // for changes
	presenceEvery  = time.Minute      // without any
	presenceWithin = 10 * time.Second // an answer
	presenceOlder  = 10 * time.Minute // a server that does not take it is of an older version
)

// tellPresence tells the audit server which proxies are connected here, so that those are found of which it gets no record, until ctx ends.
func (p *plane) tellPresence(ctx context.Context, conn grpc.ClientConnInterface) {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return
	}
	var told []string
	var next time.Time
	looks := time.NewTicker(presenceLooks)
	defer looks.Stop()
	for {
		if ids, now := p.cache.Connected(), time.Now(); !now.Before(next) || told != nil && !slices.Equal(ids, told) {
			switch err := p.tell(ctx, conn, ids); {
			case err == nil:
				told, next = append([]string{}, ids...), now.Add(presenceEvery)
			case status.Code(err) == codes.Unimplemented:
				told, next = nil, now.Add(presenceOlder)
			default:
				told, next = nil, now.Add(presenceEvery/4)
				p.log.Debug("the audit server is not told which proxies are connected", "err", err)
			}
		}
		select {
		case <-looks.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell tells once. The name is the replica's.
func (p *plane) tell(ctx context.Context, conn grpc.ClientConnInterface, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, presenceWithin)
	defer cancel()
	name := "controller"
	if p.cluster != nil {
		name = cmp.Or(p.cluster.Replica, name)
	}
	proxies := make([]presence.Proxy, len(ids))
	for i, id := range ids {
		proxies[i] = presence.Proxy{ID: id, Since: p.known.podSince(id)}
	}
	return presence.Tell(ctx, conn, name, proxies)
}

// podSince is since when there is the pod of a node id; zero where there is none.
func (v *inventory) podSince(id string) time.Time {
	pod, namespace := wire.PodOfNode(id)
	if o := v.get(config.Key{Kind: config.KindPod, Namespace: namespace, Name: pod}); o != nil {
		return o.Created
	}
	return time.Time{}
}
