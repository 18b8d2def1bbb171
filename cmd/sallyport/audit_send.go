package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/sink"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/audit/store/server"
	"github.com/sallyport/sallyport/egress/detect/send"
)

// sendFlags are those of an audit server that passes records on.
type sendFlags struct {
	to     []string
	ca     string
	settle time.Duration
}

func (f *sendFlags) add(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.to, "send-records", nil, "KIND=FILE: where records go as OCSF events; KIND is ocsf (JSON by HTTPS), splunk (its HTTP Event Collector), otlp, syslog or kafka, FILE holds the URL, and below it headers, or settings of kafka, a Name: value a line; repeat it")
	fs.StringVar(&f.ca, "send-records-ca", "", "file with roots that --send-records trusts beside the system's")
	fs.DurationVar(&f.settle, "send-records-settle", 5*time.Minute, "how long a receiver that acknowledges later (splunk) may take, before all that it has not acknowledged is sent again")
}

// args are the flags for another process.
func (f *sendFlags) args() []string {
	args := []string{"--send-records-ca", absolute(f.ca), "--send-records-settle", f.settle.String()}
	for _, to := range f.to {
		args = append(args, "--send-records", to)
	}
	return args
}

// check reads what the flags name, and finds calls that cannot work.
func (f *sendFlags) check() (all []*send.Records, err error) {
	if f.settle <= 0 {
		return nil, fmt.Errorf("--send-records-settle %v: must be longer than nothing", f.settle)
	}
	for _, to := range f.to {
		r, err := send.NewRecords(to, send.Options{CAFile: f.ca, Settle: f.settle})
		if err != nil {
			return nil, fmt.Errorf("--send-records: %w", err)
		}
		if slices.ContainsFunc(all, func(other *send.Records) bool { return other.Name() == r.Name() }) {
			return nil, fmt.Errorf("--send-records %s is given twice", r.Name())
		}
		all = append(all, r)
	}
	return all, nil
}

// beside gives the job that sends, and prepares the server for it; nil where there is nobody to send to.
func (f *sendFlags) beside(o *server.Options, registry *prometheus.Registry) (auditJob, error) {
	all, err := f.check()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	metrics := sink.NewMetrics()
	registry.MustRegister(metrics)
	for _, r := range all {
		o.Held = append(o.Held, r.Name())
	}
	dir, log := filepath.Join(o.Data, query.StoreName), o.Logger
	return func(ctx context.Context, s *store.Store) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, r := range all {
			id := sha256.Sum256([]byte(r.Name()))
			defer r.Close()
			to, err := sink.New(sink.Options{
				Name: r.Name(), Store: s, Send: r.Send, Settle: r.Settle, Waits: r.Waits, Unfit: r.Unfit, State: filepath.Join(dir, "sent-"+hex.EncodeToString(id[:6])+".json"), Logger: log, Metrics: metrics,
			})
			if err != nil {
				return err
			}
			g.Go(func() error { return to.Run(ctx) })
		}
		return g.Wait()
	}, nil
}
