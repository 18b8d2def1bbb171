package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

const auditQueryLimit = 1000

func auditQueryCommand() *cobra.Command {
	var format string
	var log auditOrigin
	var flags auditFilterFlags
	cmd := &cobra.Command{
		Use:   "query [FILTER]",
		Short: "Print the records that fit, oldest first",
		Long:  "Print the records that fit, oldest first.\n\n" + filterArguments,
		Example: `  sallyport audit query --since 1h --verdict denied
  sallyport audit query 'host:*.example.com -workload:shop/cart bytes:>1MB since:7d'
  sallyport audit query --since 7d --host '*.evil.test' --from shop/checkout -o json
  sallyport audit query --since 7d --would-deny --policy shop/allowed
  sallyport audit query --since 2026-03-01T00:00:00Z --until 2026-03-02T00:00:00Z --limit 0 -o ocsf`,
		Args: auditArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			filter, err := flags.filter(cmd, args, time.Now())
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			writer, err := query.NewWriter(format, out)
			if err != nil {
				return program.Misuse(err)
			}
			source, err := log.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, source.Close()) }()
			n := 0
			err = source.Select(cmd.Context(), filter, func(r record.Record) error {
				n++
				return writer.Write(r)
			})
			if err = errors.Join(query.End(writer, err), out.Flush()); err != nil {
				return err
			}
			if n > 0 && n == filter.Limit {
				fmt.Fprintf(cmd.ErrOrStderr(), "the newest %d records; --limit 0 for all\n", n)
			}
			return nil
		},
	}
	log.add(cmd)
	flags.add(cmd, "1h", auditQueryLimit)
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table, json (an array), jsonl, csv (text that a spreadsheet "+
		"would take for a formula gets a ' in front), ocsf (an event a line)")
	return cmd
}

func auditSQLCommand() *cobra.Command {
	var format string
	var log auditOrigin
	cmd := &cobra.Command{
		Use:   "sql STATEMENT",
		Short: "Run one SELECT (DuckDB's SQL) on the table records",
		Long: `Run one SELECT (DuckDB's SQL) on the table records. The statement can read the log and nothing else.

Columns: ` + strings.Join(schema.Names(), ", ") + `.
Times are UTC. "lost" is set in records of class gap: so many records are missing.`,
		Example: `  sallyport audit sql "SELECT host, count(*) AS n FROM records WHERE verdict = 'denied' GROUP BY host ORDER BY n DESC"
  sallyport audit sql "SELECT date_trunc('hour', time) AS h, sum(bytes_received) FROM records GROUP BY h ORDER BY h" -o csv
  sallyport audit sql "DESCRIBE records"`,
		Args: oneArgument("STATEMENT", `"SELECT count(*) FROM records"`),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			out := bufio.NewWriter(cmd.OutOrStdout())
			writer, err := query.NewRowWriter(format, out)
			if err != nil {
				return program.Misuse(err)
			}
			source, err := log.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, source.Close()) }()
			if err := source.SQL(cmd.Context(), args[0], writer); err != nil {
				return errors.Join(statementUsage(err), out.Flush())
			}
			return errors.Join(writer.Close(), out.Flush())
		},
	}
	log.add(cmd)
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table, json (an array of objects), csv")
	return cmd
}

func auditTailCommand() *cobra.Command {
	var format string
	var log auditOrigin
	var flags auditFilterFlags
	cmd := &cobra.Command{
		Use:   "tail [FILTER]",
		Short: "Print the latest records that fit, then new ones as they come in",
		Long:  "Print the latest records that fit, then new ones as they come in.\n\n" + filterArguments,
		Example: `  sallyport audit tail --verdict denied
  sallyport audit tail --from shop/checkout -o json | jq -r .host`,
		Args: auditArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			filter, err := flags.filter(cmd, args, time.Now())
			if err != nil {
				return err
			}
			writer, err := query.NewTailWriter(format, cmd.OutOrStdout())
			if err != nil {
				return program.Misuse(err)
			}
			source, err := log.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, source.Close()) }()
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := writer.Flush(); err != nil {
				return err
			}
			err = source.Tail(ctx, filter, func(r record.Record) error {
				return errors.Join(writer.Write(r), writer.Flush())
			})
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return nil // it was asked to end
			}
			return err
		},
	}
	log.add(cmd)
	flags.add(cmd, "", 10)
	cmd.Flags().Lookup("limit").Usage = "begin with the latest N"
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table, json or jsonl (a record a line), csv, ocsf")
	cmd.Flags().BoolP("follow", "f", true, "accepted for those used to it: tail always follows")
	return cmd
}
