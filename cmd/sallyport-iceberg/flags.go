package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport-iceberg/table"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

// flags are those of every command.
type flags struct {
	lake   string
	access place.Access
	table.Options
}

func (f *flags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.lake, "lake", "", "the lake: a folder, or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=NAME")
	fs.StringVar(&f.access.Credentials, "lake-credentials", "", "file like ~/.aws/credentials for --lake; without it AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY count, then that file, then what the machine offers")
	fs.StringVar(&f.access.CAFile, "lake-ca", "", "file with roots that --lake trusts beside the system's")
	fs.StringVar(&f.Catalog.URL, "catalog", "", "the REST catalog, like https://catalog.example.com/iceberg; what comes behind it begins with /v1")
	fs.StringVar(&f.Catalog.Warehouse, "warehouse", "", "the warehouse there, where the catalog has several")
	fs.StringVar(&f.Catalog.Token, "catalog-token", "", "file with a bearer token for the catalog; read at each pass")
	fs.StringVar(&f.Catalog.Credential, "catalog-credential", "", "file with CLIENT_ID:SECRET, by which tokens are asked for; read at each pass")
	fs.StringVar(&f.Catalog.AuthURL, "catalog-auth-url", "", "where such tokens are asked for, if not of the catalog itself")
	fs.StringVar(&f.Catalog.Scope, "catalog-scope", "", "the scope of such tokens, if not \"catalog\"")
	fs.StringVar(&f.Catalog.CAFile, "catalog-ca", "", "file with roots that --catalog trusts beside the system's")
	fs.StringVar(&f.Table, "table", "", "the table, as NAMESPACE.NAME; it is made where there is none")
	fs.StringVar(&f.Location, "location", "", "where the table's own files are, in the lake; without it LAKE/_iceberg/TABLE")
	fs.DurationVar(&f.Keep, "keep-snapshots", 24*time.Hour, "how long snapshots stay; give the audit server a --lake-keep-replaced that is not less")
}

// keeper checks the flags.
func (f *flags) keeper() (*table.Keeper, error) {
	var err error
	if f.Options.Lake, err = place.Parse(f.lake, f.access); err != nil {
		return nil, program.Misuse(fmt.Errorf("--lake: %w", err))
	}
	if f.Keep <= 0 || f.Every < 0 {
		return nil, program.Misuse(fmt.Errorf("--keep-snapshots %s, --every %s: write durations like 24h or 5m", f.Keep, f.Every))
	}
	k, err := table.New(f.Options)
	if err != nil {
		return nil, program.Misuse(err)
	}
	return k, nil
}
