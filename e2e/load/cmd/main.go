// Command cmd prints what a mesh costs its control plane, beside the targets.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/sallyport/sallyport/e2e/load"
)

func main() {
	var sizes, output, doc string
	o := load.Options{Progress: os.Stderr}
	flag.StringVar(&o.Sallyport, "sallyport", "bin/sallyport", "the built `program`")
	flag.StringVar(&sizes, "entries", "1000,10000", "how many ServiceEntries: `sizes` of meshes, comma-separated")
	flag.IntVar(&o.Streams, "streams", 100, "how many sidecars are connected")
	flag.IntVar(&o.Crowd, "crowd", 1000, "how many connect at once to a second controller; 0 for none")
	flag.IntVar(&o.Changes, "changes", 51, "how many changes are made")
	flag.StringVar(&o.Profiles, "profiles", "", "existing `directory` to put the controller's profiles into")
	flag.StringVar(&output, "o", "table", "table or json")
	flag.StringVar(&doc, "doc", "", "`file` to keep the table in, between its markers")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, o, sizes, output, doc)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o load.Options, sizes, output, doc string) error {
	var err error
	if o.Sallyport, err = filepath.Abs(o.Sallyport); err != nil {
		return err
	}
	if _, err := os.Stat(o.Sallyport); err != nil {
		return fmt.Errorf("%w: run `make build`", err)
	}
	var all []load.Figures
	for size := range strings.SplitSeq(sizes, ",") {
		if o.Entries, err = strconv.Atoi(size); err != nil {
			return fmt.Errorf("-entries %q: %w", sizes, err)
		}
		f, err := load.Measure(ctx, o)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	if output == "json" {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	fmt.Print(load.Table(all))
	if doc != "" {
		return load.Keep(doc, all)
	}
	return nil
}
