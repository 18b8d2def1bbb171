package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/lake"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/audit/store/server"
)

// lakePlace is where a lake is, and how it is reached.
type lakePlace struct {
	where  string
	access place.Access
}

func (l *lakePlace) add(fs *pflag.FlagSet, usage string) {
	fs.StringVar(&l.where, "lake", "", usage+": a folder, or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=NAME")
	fs.StringVar(&l.access.Credentials, "lake-credentials", "", "file like ~/.aws/credentials for --lake; without it AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY count, then that file, then what the machine offers")
	fs.StringVar(&l.access.CAFile, "lake-ca", "", "file with roots that --lake trusts beside the system's")
}

func (l *lakePlace) parse() (place.Place, error) {
	p, err := place.Parse(l.where, l.access)
	if err != nil {
		return nil, fmt.Errorf("--lake: %w", err)
	}
	return p, nil
}

// lakeFlags are those of an audit server that fills a lake.
type lakeFlags struct {
	lakePlace
	every, region, cluster, keep string
}

func (f *lakeFlags) add(fs *pflag.FlagSet) {
	f.lakePlace.add(fs, "where records go as Parquet")
	fs.StringVar(&f.every, "lake-every", "1h", "how often they go there")
	fs.StringVar(&f.keep, "lake-keep-replaced", "0s", "how long files that became part of larger ones stay there: as long as whoever reads an Iceberg table takes, or its snapshots are kept; engines that list folders read their records twice meanwhile")
	fs.StringVar(&f.region, "lake-region", "default", "the region that they are filed under")
	fs.StringVar(&f.cluster, "lake-cluster", "default", "the cluster that they are filed under")
}

// args are the flags for another process.
func (f *lakeFlags) args() []string {
	if f.where == "" {
		return nil
	}
	return []string{"--lake", f.where, "--lake-credentials", absolute(f.access.Credentials), "--lake-ca", absolute(f.access.CAFile), "--lake-every", f.every, "--lake-keep-replaced", f.keep, "--lake-region", f.region, "--lake-cluster", f.cluster}
}

// check gives what the flags say; without a place where there is no lake.
func (f *lakeFlags) check() (o lake.Options, err error) {
	if f.where == "" {
		return o, nil
	}
	o.Region, o.Cluster = f.region, f.cluster
	if o.Every, err = query.ParseDuration(f.every); err != nil || o.Every < time.Second {
		return o, fmt.Errorf("--lake-every %q: write a duration like 10m or 1h, 1s or more", f.every)
	}
	if o.Keep, err = query.ParseDuration(f.keep); err != nil || o.Keep < 0 {
		return o, fmt.Errorf("--lake-keep-replaced %q: write a duration like 2h or 1d", f.keep)
	}
	if o.Place, err = f.parse(); err != nil {
		return o, err
	}
	if err := o.Check(); err != nil {
		return o, fmt.Errorf("--lake: %w", err)
	}
	return o, nil
}

// lakeScratch is the folder in the store's for files on their way.
const lakeScratch = "lake"

// beside gives the job that fills the lake, and prepares the server for it; nil where there is no lake.
func (f *lakeFlags) beside(o *server.Options, registry *prometheus.Registry) (auditJob, error) {
	options, err := f.check()
	if err != nil || options.Place == nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Join(o.Data, query.StoreName))
	if err != nil {
		return nil, err
	}
	options.Dir, options.Scratch, options.Logger, options.Metrics = dir, filepath.Join(dir, lakeScratch), o.Logger, lake.NewMetrics()
	o.Held, o.Scratch = append(o.Held, lake.Holder), lakeScratch
	registry.MustRegister(options.Metrics)
	return func(ctx context.Context, s *store.Store) error {
		options.Store = s
		w, err := lake.NewWriter(options)
		if err != nil {
			return err
		}
		return w.Run(ctx)
	}, nil
}

// lakeReading is a lake as the place where the log is read.
type lakeReading struct {
	lakePlace
	since, cacheSize string
}

func (r *lakeReading) add(fs *pflag.FlagSet) {
	r.lakePlace.add(fs, "read the log there instead")
	fs.StringVar(&r.since, "lake-since", "", "read only what happened from then on; for SQL, which has no --since: a duration before now, or an RFC 3339 time")
	fs.StringVar(&r.cacheSize, "lake-cache", "16GiB", "how much of a bucket may be kept in ${XDG_CACHE_HOME:-$HOME/.cache}/sallyport")
}

func (r *lakeReading) open() (query.Source, error) {
	at, err := r.parse()
	if err != nil {
		return nil, program.Misuse(err)
	}
	o := lake.ReadOptions{}
	if o.Since, err = query.ParseTime(r.since, time.Now()); err != nil {
		return nil, program.Misuse(fmt.Errorf("--lake-since: %w", err))
	}
	if o.CacheBytes, err = parseBytes(r.cacheSize); err != nil {
		return nil, program.Misuse(fmt.Errorf("--lake-cache: %w", err))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		o.Cache = filepath.Join(cache, "sallyport", "lake")
	}
	return lake.Open(at, o)
}

// parseBytes reads a size such as 512MiB or 16GiB.
func parseBytes(text string) (int64, error) {
	var n float64
	var unit string
	if _, err := fmt.Sscanf(text, "%f%s", &n, &unit); err == nil && n > 0 && n < 1<<20 {
		for i, name := range []string{"MiB", "GiB", "TiB"} {
			if unit == name {
				return int64(n * float64(int64(1)<<(20+10*i))), nil
			}
		}
	}
	return 0, fmt.Errorf("%q: write a size like 512MiB or 16GiB", text)
}

// auditLakeCommand is "sallyport audit lake".
func auditLakeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lake",
		Short: "The log as Parquet in object storage",
		Long: `The log as Parquet in object storage, or in a folder: OCSF events by region, cluster and day, which other engines read too.

"sallyport audit server --lake" fills it; query, sql, export, detect, suggest and simulate read it with the same --lake.`,
		Example: `  sallyport audit lake status --lake /srv/lake
  sallyport audit query --lake s3://logs/egress --since 7d`,
		Args: auditArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(auditLakeStatusCommand())
	return cmd
}

func auditLakeStatusCommand() *cobra.Command {
	var data, format string
	var from lakePlace
	cmd := &cobra.Command{
		Use:   "status",
		Short: "How far the lake is: what it has, and what waits",
		Long: `How far the lake is: what it has, and what waits.

Of a data folder, what its audit server wrote after its last try; with --lake, what the lake itself says, of all the servers that fill it.`,
		Example: `  sallyport audit lake status --data /var/lib/sallyport
  sallyport audit lake status --lake s3://logs/egress -o json`,
		Args: auditArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return program.Misuse(fmt.Errorf("-o %q: must be table or json", format))
			}
			all, err := lakeStatuses(cmd.Context(), data, &from)
			if err != nil {
				return err
			}
			return writeLakeStatuses(cmd.OutOrStdout(), format, all)
		},
	}
	auditDataFlag(cmd, &data)
	from.add(cmd.Flags(), "ask the lake itself")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}

func lakeStatuses(ctx context.Context, data string, at *lakePlace) ([]lake.Status, error) {
	if at.where != "" {
		if data != "" {
			return nil, program.Misuse(errors.New("--data and --lake exclude each other"))
		}
		p, err := at.parse()
		if err != nil {
			return nil, program.Misuse(err)
		}
		return lake.ReadStatuses(ctx, p)
	}
	data, err := auditData(data)
	if err != nil {
		return nil, err
	}
	s, err := lake.ReadStatus(filepath.Join(data, query.StoreName))
	return []lake.Status{s}, err
}

func writeLakeStatuses(w io.Writer, format string, all []lake.Status) error {
	if format == "json" {
		if all == nil {
			all = []lake.Status{}
		}
		return printJSON(w, all)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WRITER\tHAS ALL UNTIL\tRECORDS\tFILES\tMIB\tWAITING\tMISSED\tLAST TRY\tFAILING")
	for _, s := range all {
		until, failing := "-", "-"
		if !s.Until.IsZero() {
			until = s.Until.UTC().Format(time.RFC3339)
		}
		if s.Failing != "" {
			failing = strconv.Quote(s.Failing)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f\t%d\t%d\t%s\t%s\n", s.Writer, until, s.Records, s.Files, float64(s.Bytes)/(1<<20), s.Waiting, s.Missed, s.Tried.UTC().Format(time.RFC3339), failing)
	}
	return t.Flush()
}
