package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/bench/corpus"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	proxies = 50
	batch   = 1_000
	streams = 8 // agents that ship at a time
)

// stream is one agent's: n records whose times go from one moment to another. wait, if set, is called before each batch.
func (s *server) stream(ctx context.Context, proxy, n int, from, to time.Time, wait func()) error {
	client, made := ingest.NewClient(s.conn), corpus.New(uint64(proxy+1))
	epoch := uint64(time.Now().UnixNano())
	step := to.Sub(from) / time.Duration(max(n, 1))
	for at := 0; at < n; {
		records := make([]record.Record, 0, batch)
		for ; at < n && len(records) < batch; at++ {
			r := made.Record(from.Add(time.Duration(at) * step))
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
