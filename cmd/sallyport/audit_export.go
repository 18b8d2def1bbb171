package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

func auditExportCommand() *cobra.Command {
	var format string
	var log auditOrigin
	var flags auditFilterFlags
	cmd := &cobra.Command{
		Use:   "export FILE [FILTER]",
		Short: "Write the records that fit to a new file",
		Long:  "Write the records that fit to a new file.\n\n" + filterArguments,
		Example: `  sallyport audit export --since 30d march.parquet
  sallyport audit export --since 24h --format ocsf - | gzip > day.ocsf.gz`,
		Args: auditArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			filter, err := flags.filter(cmd, args[1:], time.Now())
			if err != nil {
				return err
			}
			source, err := log.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, source.Close()) }()
			n, err := exportAudit(cmd, source, filter, format, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d records written to %s\n", n, args[0])
			return nil
		},
	}
	log.add(cmd)
	flags.add(cmd, "", 0)
	cmd.Flags().StringVar(&format, "format", "parquet", "parquet, jsonl, csv, ocsf; - as FILE is the standard output, not for parquet")
	return cmd
}

func exportAudit(cmd *cobra.Command, source query.Source, filter query.Filter, format, file string) (int, error) {
	switch format {
	case "parquet":
		if file == "-" {
			return 0, program.Misuse(errors.New("--format parquet: give a FILE, parquet is not written to the standard output"))
		}
		return exportParquet(cmd.Context(), source, filter, file)
	case "jsonl", "csv", "ocsf":
		return exportLines(cmd, source, filter, format, file)
	}
	return 0, program.Misuse(fmt.Errorf("--format %q: it is parquet, jsonl, csv or ocsf", format))
}

func exportParquet(ctx context.Context, source query.Source, filter query.Filter, file string) (n int, err error) {
	w, err := store.NewParquetWriter(ctx, file, store.UsualMemory)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var batch []record.Record
	err = source.Select(ctx, filter, func(r record.Record) error {
		if batch = append(batch, r); len(batch) < 10*ingest.MaxBatch {
			return nil
		}
		err := w.Write(ctx, batch)
		batch = batch[:0]
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := w.Write(ctx, batch); err != nil {
		return 0, err
	}
	return w.Finish(ctx)
}

func exportLines(cmd *cobra.Command, source query.Source, filter query.Filter, format, file string) (n int, err error) {
	var to io.Writer = cmd.OutOrStdout()
	if file != "-" {
		f, failed := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if failed != nil {
			return 0, fmt.Errorf("audit export: %w", failed)
		}
		defer func() { // of the function's error
			if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
				err = errors.Join(err, os.Remove(file)) // half a file would pass for a whole one
			}
		}()
		to = f
	}
	out := bufio.NewWriter(to)
	writer, err := query.NewWriter(format, out)
	if err != nil {
		return 0, err
	}
	err = source.Select(cmd.Context(), filter, func(r record.Record) error {
		n++
		return writer.Write(r)
	})
	return n, errors.Join(query.End(writer, err), out.Flush())
}
