package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/detect/send"
	"github.com/sallyport/sallyport/egress/detect/watch"
)

// watchFlags are those of whoever looks for findings all the time.
type watchFlags struct {
	choice                ruleChoice
	every, window, repeat string
	least                 string
	send                  []string
	ca                    string
	configDir, meshConfig string

	duration struct{ every, window, repeat time.Duration }
	severity detect.Severity
	sinks    []send.Sink
	others   func() (bool, time.Time) // see watch.Options
	// connected gives the proxies that controllers say are connected; some is false where none says so.
	connected func() (proxies []presence.Proxy, some bool)
}

func (f *watchFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.every, "detect-every", "5m", "how often the log is looked through for what should not be there; 0 for never")
	fs.StringVar(&f.window, "detect-window", "24h", "how much of the log is looked through each time")
	fs.StringVar(&f.repeat, "detect-repeat", "24h", "after how long a finding that goes on is sent again")
	fs.StringVar(&f.least, "detect-least", "low", "least severity of what is sent: informational, low, medium, high, critical")
	fs.StringArrayVar(&f.send, "detect-send", nil, "KIND=FILE: where findings are sent; KIND is webhook, slack, alertmanager, syslog or otlp, FILE holds the URL, and below it headers, a Name: value a line; repeat it")
	fs.StringVar(&f.ca, "detect-ca", "", "file with roots that --detect-send trusts beside the system's")
	f.choice.add(fs, "detect-")
}

// addServers declares what only the process needs that does it.
func (f *watchFlags) addServers(fs *pflag.FlagSet) {
	fs.StringVar(&f.configDir, "detect-config-dir", "", "directory of YAML files with the policies, for the detections about policies")
	fs.StringVar(&f.meshConfig, "detect-mesh-config", "", "file with Istio's MeshConfig")
}

// args are the flags for another process.
func (f *watchFlags) args() []string {
	args := []string{
		"--detect-every", f.every, "--detect-window", f.window, "--detect-repeat", f.repeat, "--detect-least", f.least, "--detect-ca", absolute(f.ca),
		"--detect-config-dir", absolute(f.configDir), "--detect-mesh-config", absolute(f.meshConfig), "--detect-rules", absolute(f.choice.dir), "--detect-feed", absolute(f.choice.feed),
	}
	for flag, values := range map[string][]string{"--detect-send": f.send, "--detect-only": f.choice.only, "--detect-except": f.choice.except, "--detect-set": f.choice.set} {
		for _, value := range values {
			args = append(args, flag, value)
		}
	}
	return args
}

func absolute(file string) string {
	if file == "" {
		return ""
	}
	if whole, err := filepath.Abs(file); err == nil {
		return whole
	}
	return file
}

// check reads the flags, and what they name, and finds calls that cannot work.
func (f *watchFlags) check() (err error) {
	for _, d := range []struct {
		flag, text string
		to         *time.Duration
		least      time.Duration
	}{
		{"--detect-every", f.every, &f.duration.every, 0},
		{"--detect-window", f.window, &f.duration.window, time.Minute},
		{"--detect-repeat", f.repeat, &f.duration.repeat, time.Second},
	} {
		if *d.to, err = query.ParseDuration(d.text); err != nil || *d.to < d.least {
			return fmt.Errorf("%s %q: write a duration like 5m or 1d, %v or more", d.flag, d.text, d.least)
		}
	}
	if f.severity, err = detect.ParseSeverity(f.least); err != nil {
		return fmt.Errorf("--detect-least: %w", err)
	}
	if _, err := f.choice.load(); err != nil {
		return err
	}
	f.sinks = nil
	for _, target := range f.send {
		sink, err := send.New(target, send.Options{CAFile: f.ca, Repeat: f.duration.repeat})
		if err != nil {
			return fmt.Errorf("--detect-send: %w", err)
		}
		f.sinks = append(f.sinks, sink)
	}
	return nil
}

// beside gives what runs beside the audit server, the watch, and what the watch found when it looked last; nil where it never looks.
func (f *watchFlags) beside(data string, log *slog.Logger, registry *prometheus.Registry) (auditJob, func() *detect.Report, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	metrics := watch.NewMetrics()
	registry.MustRegister(metrics)
	if f.duration.every <= 0 {
		return nil, nil, nil
	}
	var last atomic.Pointer[detect.Report]
	return func(ctx context.Context, s *store.Store) error {
		return watch.Run(ctx, watch.Options{
			Log: detect.DB{DB: s.DB()}, Plan: f.plan, Every: f.duration.every, Window: f.duration.window, Repeat: f.duration.repeat, Least: f.severity,
			Sinks: f.sinks, State: filepath.Join(data, "findings.json"), Logger: log, Metrics: metrics, Found: last.Store, Others: f.others,
		})
	}, last.Load, nil
}

// plan reads rules, feed and policies as they are now.
func (f *watchFlags) plan(ctx context.Context) (*watch.Plan, error) {
	chosen, err := f.choice.load()
	if err != nil {
		return nil, err
	}
	plan := &watch.Plan{Rules: chosen.rules, Settings: chosen.settings, Inputs: detect.Inputs{Feed: chosen.feed}}
	if f.connected != nil {
		plan.Inputs.Proxies, _ = f.connected()
	}
	if f.configDir != "" {
		var unread error
		if plan.Inputs.Rules, unread = policyRules(ctx, "--detect-config-dir", f.configDir, f.meshConfig, io.Discard); unread != nil {
			chosen.broken = errors.Join(chosen.broken, unread)
		}
	}
	return plan, chosen.broken
}
