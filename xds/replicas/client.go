package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/replicas/replicaspb"
	"github.com/sallyport/sallyport/xds/serve"
)

// answerWithin is how long a replica may take.
const answerWithin = 2 * time.Second

// Others asks the other replicas.
type Others struct {
	Replica     string // who asks: what it says itself is not asked for
	Credentials credentials.TransportCredentials
	Within      time.Duration // that a replica may take; two seconds, if it is not said

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
}

// Enforcing asks those at the addresses, HOST:PORT, how far their proxies are with policies. Beside what each says it gives the errors of
// those that did not answer, by address.
func (o *Others) Enforcing(ctx context.Context, addresses []string, policies []config.Key) (said []Said, silent map[string]error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Within, answerWithin))
	defer cancel()
	q := &replicaspb.EnforcingRequest{}
	for _, key := range policies {
		q.Policies = append(q.Policies, &replicaspb.Policy{Namespace: key.Namespace, Name: key.Name})
	}
	var mu sync.Mutex
	var asking errgroup.Group
	silent = map[string]error{}
	for address, conn := range o.connections(addresses, silent) {
		asking.Go(func() error {
			r, err := replicaspb.NewReplicasClient(conn).Enforcing(ctx, q)
			if err == nil && len(r.Enforcements) != len(policies) {
				err = fmt.Errorf("it was asked about %d policies, and answers about %d", len(policies), len(r.Enforcements))
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				silent[address] = err
			case r.Replica != o.Replica:
				said = append(said, saidOf(r, policies))
			}
			return nil
		})
	}
	_ = asking.Wait()
	slices.SortFunc(said, func(a, b Said) int { return strings.Compare(a.Replica, b.Replica) })
	return said, silent
}

// Said is what a replica says.
type Said struct {
	Replica      string
	Enforcements map[config.Key]serve.Enforcement
	Gateways     []string // the addresses of gateways' pods that are connected to it
}

func saidOf(r *replicaspb.EnforcingResponse, policies []config.Key) Said {
	out := Said{r.Replica, make(map[config.Key]serve.Enforcement, len(policies)), r.Gateways}
	for i, key := range policies {
		e := r.Enforcements[i]
		out.Enforcements[key] = serve.Enforcement{
			Revision: e.Revision, Selected: int(e.Selected), Current: int(e.Current), Behind: e.Behind, Refuses: e.Refuses, Refusal: e.Refusal,
			Endless: int(e.Endless), EndlessAt: e.EndlessAt,
		}
	}
	return out
}

// connections are those to the addresses; others are closed.
func (o *Others) connections(addresses []string, failed map[string]error) map[string]*grpc.ClientConn {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns = map[string]*grpc.ClientConn{}
	}
	for address, conn := range o.conns {
		if !slices.Contains(addresses, address) {
			_ = conn.Close()
			delete(o.conns, address)
		}
	}
	for _, address := range addresses {
		if o.conns[address] != nil {
			continue
		}
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(o.Credentials))
		if err != nil {
			failed[address] = err
			continue
		}
		o.conns[address] = conn
	}
	return maps.Clone(o.conns)
}

// Close ends all connections.
func (o *Others) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all error
	for address, conn := range o.conns {
		all = errors.Join(all, conn.Close())
		delete(o.conns, address)
	}
	return all
}
