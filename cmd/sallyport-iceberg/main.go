// Command sallyport-iceberg keeps an Iceberg table of the audit log's lake, through a REST catalog.
package main

import (
	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
)

// version is set at build time.
var version = "dev"

func main() { program.Main(rootCommand()) }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sallyport-iceberg",
		Short: "An Iceberg table of the audit log's lake, kept through a REST catalog",
		Long: `An Iceberg table of the audit log's lake, kept through a REST catalog.

"sallyport audit server --lake" writes Parquet files, and this program commits them to a table: each file once, also when it is killed or two of it run. It writes the table's
own files beside them, in the lake's _iceberg folder, and never touches the data.

Exit codes: 0 done, 2 the call was wrong, 3 it failed.`,
		Example: `  sallyport-iceberg run --lake s3://logs/egress --catalog https://catalog.example.com/iceberg --table security.egress
  sallyport-iceberg sync --lake ./lake --catalog http://127.0.0.1:8181 --table security.egress
  sallyport-iceberg status --lake ./lake --catalog http://127.0.0.1:8181 --table security.egress -o json`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return program.Misuse(err) })
	root.AddCommand(runCommand(), syncCommand(), statusCommand())
	return root
}

func noArguments(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return program.Misuse(err)
	}
	return nil
}
