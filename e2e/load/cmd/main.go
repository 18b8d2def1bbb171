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
	"time"

	"github.com/sallyport/sallyport/e2e/load"
)

func main() {
	var a arguments
	o := load.Options{Progress: os.Stderr}
	flag.StringVar(&o.Sallyport, "sallyport", "bin/sallyport", "the built `program`")
	flag.StringVar(&o.Shape, "shape", load.ShapeEntries, "what there is many of: "+strings.Join(load.Shapes(), ", "))
	flag.StringVar(&a.sizes, "entries", "1000,10000", "how many of them: `sizes` of meshes, comma-separated")
	flag.IntVar(&o.Private, "private", 0, "how many `percent` of the entries only their own namespace sees")
	flag.IntVar(&o.Streams, "streams", 100, "how many sidecars, or pods of the Gateway, are connected")
	flag.IntVar(&o.Crowd, "crowd", 1000, "how many connect at once to a second controller; 0 for none")
	flag.IntVar(&o.Changes, "changes", 51, "how many changes are made")
	flag.BoolVar(&o.Plain, "plain", false, "the clients read no compressed messages: any that speaks xDS, and not our agents")
	flag.DurationVar(&o.Rest, "rest", 75*time.Second, "how `long` nothing happens before memory is looked at once more, of the shape "+load.ShapeFetched)
	flag.StringVar(&o.Profiles, "profiles", "", "existing `directory` to put the controller's profiles into")
	flag.IntVar(&a.runs, "runs", 1, "how often each size is measured; the medians count")
	flag.StringVar(&a.output, "o", "table", "table or json")
	flag.StringVar(&a.doc, "doc", "", "`file` to keep the table in, between its markers")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, o, a)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// arguments are those that are not about one run.
type arguments struct {
	sizes, output, doc string
	runs               int
}

func measure(ctx context.Context, o load.Options, a arguments) error {
	var err error
	if o.Sallyport, err = filepath.Abs(o.Sallyport); err != nil {
		return err
	}
	if _, err := os.Stat(o.Sallyport); err != nil {
		return fmt.Errorf("%w: run `make build`", err)
	}
	var all []load.Figures
	for size := range strings.SplitSeq(a.sizes, ",") {
		if o.Entries, err = strconv.Atoi(size); err != nil {
			return fmt.Errorf("-entries %q: %w", a.sizes, err)
		}
		var runs []load.Figures
		for range max(a.runs, 1) {
			f, err := load.Measure(ctx, o)
			if err != nil {
				return err
			}
			runs = append(runs, f)
		}
		all = append(all, load.Median(runs))
	}
	if a.doc != "" {
		if err := load.Keep(a.doc, all, max(a.runs, 1)); err != nil {
			return err
		}
	}
	if a.output == "json" {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"machine": load.Machine(), "results": load.Results(all), "figures": all})
	}
	fmt.Print(load.Table(all))
	return nil
}
