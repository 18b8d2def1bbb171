package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport-iceberg/table"
)

func runCommand() *cobra.Command {
	var f flags
	var metricsAddr string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Keep the table up with the lake until it is told to stop",
		Long: `Keep the table up with the lake until it is told to stop.

What fails is tried again for ever. Two that run at once do no harm: the catalog takes one's commit, and the other looks again.`,
		Example: `  sallyport-iceberg run --lake s3://logs/egress --catalog https://catalog.example.com/iceberg --catalog-token /etc/catalog/token --table security.egress --metrics-addr :15014`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			f.Metrics = table.NewMetrics()
			k, err := f.keeper()
			if err != nil {
				return err
			}
			if metricsAddr == "" {
				return k.Run(cmd.Context())
			}
			registry := prometheus.NewRegistry()
			registry.MustRegister(f.Metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
			l, err := listen(cmd.Context(), metricsAddr)
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(cmd.Context())
			group.Go(func() error { return serve(ctx, l, registry) })
			group.Go(func() error { return k.Run(ctx) })
			return group.Wait()
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().DurationVar(&f.Every, "every", 5*time.Minute, "how often the lake is looked at")
	cmd.Flags().StringVar(&metricsAddr, "metrics-addr", "", "where /metrics and /healthz are, like :15014; empty for none")
	return cmd
}

func syncCommand() *cobra.Command {
	return once("sync", "Make the table what the lake is, once", `Make the table what the lake is, once. A second call finds nothing to do.`, (*table.Keeper).Pass)
}

func statusCommand() *cobra.Command {
	return once("status", "What the table has, and what a pass would do", `What the table has, and what a pass would do. It changes nothing.`, (*table.Keeper).Status)
}

// once is a command that does one thing and prints what it found.
func once(name, short, long string, do func(*table.Keeper, context.Context) (*table.Status, error)) *cobra.Command {
	var f flags
	var format string
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long,
		Example: fmt.Sprintf("  sallyport-iceberg %s --lake ./lake --catalog http://127.0.0.1:8181 --table security.egress -o json", name),
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return program.Misuse(fmt.Errorf("-o %q: must be table or json", format))
			}
			k, err := f.keeper()
			if err != nil {
				return err
			}
			s, err := do(k, cmd.Context())
			if err != nil {
				return err
			}
			if s.Newer {
				cmd.PrintErrln("sallyport-iceberg: there are files with columns that this version does not know: raise it to see them")
			}
			return show(cmd.OutOrStdout(), format, s)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}

func show(w io.Writer, format string, s *table.Status) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tSNAPSHOT\tHAS ALL UNTIL\tRECORDS\tFILES\tMIB\tADDED\tREMOVED\tLEFT")
	fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%d\t%.1f\t%d\t%d\t%d\n", s.Table, s.Snapshot, s.Until.UTC().Format(time.RFC3339), s.Records, s.Files, float64(s.Bytes)/(1<<20), s.Added, s.Removed, s.Left)
	return t.Flush()
}
