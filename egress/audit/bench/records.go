package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The mesh of the log: a workload goes to some hosts, some of its paths more than others, and one request in twenty is denied.
const (
	proxies   = 50
	workloads = 400
	hosts     = 2_000
	hostsEach = 8  // of a workload
	paths     = 40 // of a host
	batch     = 1_000
	streams   = 8 // agents that ship at a time
)

// source makes records; the same ones each time, but for their times.
type source struct{ random uint64 }

func (s *source) next(n int) int {
	s.random ^= s.random << 13
	s.random ^= s.random >> 7
	s.random ^= s.random << 17
	return int(s.random>>1) % n
}

// few prefers small numbers: half of all are below a tenth.
func (s *source) few(n int) int {
	if s.next(2) == 0 {
		return s.next(max(n/10, 1))
	}
	return s.next(n)
}

func (s *source) record(at time.Time) record.Record {
	w := s.few(workloads)
	h := (w*31 + s.few(hostsEach)*257) % hosts
	namespace, account := fmt.Sprintf("team-%d", w%40), fmt.Sprintf("service-%d", w)
	host := fmt.Sprintf("api-%d.vendor-%d.example", h, h%300)
	r := record.Record{
		Time: at, Class: record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: record.ReporterGateway, Direction: record.Outbound,
		Workload: record.Workload{
			Principal: "spiffe://cluster.local/ns/" + namespace + "/sa/" + account, Namespace: namespace, ServiceAccount: account,
			Name: fmt.Sprintf("%s-5d8f-%d", account, s.next(3)), Labels: "app=" + account + ",version=v" + fmt.Sprint(w%3),
		},
		Source: fmt.Sprintf("10.1.%d.%d:%d", w/250, w%250, 20_000+s.next(40_000)), Host: host, Port: 443, Authority: host,
		Destination: fmt.Sprintf("203.0.113.%d:443", h%250), Protocol: "http", Method: []string{"GET", "GET", "GET", "POST"}[s.next(4)],
		URLPath: fmt.Sprintf("/v1/items/%d", s.few(paths)), Status: 200, Cluster: "outbound|443||" + host, Route: "https.443." + host,
		DecidedBy: record.Object{Kind: "ServiceEntry", Namespace: "egress", Name: fmt.Sprintf("vendor-%d", h%300), Revision: "5f1d8a3c"},
		Reason:    "registered by ServiceEntry egress/vendor", BytesSent: uint64(500 + s.next(20_000)), BytesReceived: uint64(200 + s.next(2_000)), Duration: time.Duration(s.next(200_000)) * time.Microsecond,
	}
	if s.next(20) == 0 {
		r.Verdict, r.Path, r.Status, r.Flags = record.Denied, "blackhole", 403, []string{"UAEX"}
		r.Reason, r.Destination, r.DecidedBy = "no rule allows it", "", record.Object{Kind: "EgressPolicy", Namespace: namespace, Name: "allowed", Rule: "default", Revision: "77aa"}
	}
	return r
}

// stream is one agent's: n records whose times go from one moment to another. wait, if set, is called before each batch.
func (s *server) stream(ctx context.Context, proxy, n int, from, to time.Time, wait func()) error {
	client, made := ingest.NewClient(s.conn), source{uint64(proxy + 1)}
	epoch := uint64(time.Now().UnixNano())
	step := to.Sub(from) / time.Duration(max(n, 1))
	for at := 0; at < n; {
		records := make([]record.Record, 0, batch)
		for ; at < n && len(records) < batch; at++ {
			r := made.record(from.Add(time.Duration(at) * step))
			r.Proxy, r.Epoch, r.Seq = fmt.Sprintf("router~10.0.0.%d~gateway-%d.istio-system~istio-system.svc.cluster.local", proxy%proxies, proxy%proxies), epoch, uint64(at+1)
			records = append(records, r)
		}
		if wait != nil {
			wait()
		}
		if err := client.Store(ctx, records); err != nil {
			return err
		}
	}
	return nil
}

// fill hands in the records that the log lacks.
func fill(ctx context.Context, s *server, r *report) error {
	has, err := s.count(ctx)
	if err != nil {
		return err
	}
	if r.filled = r.records - has; r.filled <= 0 {
		r.filled = 0
		return nil
	}
	now, began, cpu := time.Now(), time.Now(), s.cpu()
	// A slice of the time after the other, so that records come about in the order of their times, as they do.
	slices := max(r.days, r.filled/1_000_000)
	whole := time.Duration(r.days) * 24 * time.Hour
	for i := range slices {
		from, to := now.Add(-whole+whole*time.Duration(i)/time.Duration(slices)), now.Add(-whole+whole*time.Duration(i+1)/time.Duration(slices))
		n := r.filled*(i+1)/slices - r.filled*i/slices
		group, ctx := errgroup.WithContext(ctx)
		for k := range streams {
			group.Go(func() error { return s.stream(ctx, i*streams+k, n*(k+1)/streams-n*k/streams, from, to, nil) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	r.took, r.cpu = time.Since(began).Seconds(), (s.cpu() - cpu).Seconds()
	return nil
}

// steadily hands in records at a rate, and looks at the server's memory.
func steadily(ctx context.Context, s *server, r *report) error {
	began, n := time.Now(), int(r.options.steady.Seconds()*float64(r.options.rate))
	group, ctx := errgroup.WithContext(ctx)
	every := time.Duration(float64(streams*batch) / float64(r.options.rate) * float64(time.Second))
	for k := range streams {
		group.Go(func() error {
			tick := time.NewTicker(every)
			defer tick.Stop()
			return s.stream(ctx, k, n/streams, began, began.Add(r.options.steady), func() {
				r.note(s)
				<-tick.C
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.rate = float64(n) / time.Since(began).Seconds()
	return nil
}
