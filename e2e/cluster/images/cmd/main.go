// Command cmd writes the images that the chart installs as OCI archives; see package images. `make images` calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/sallyport/sallyport/e2e/cluster/images"
)

func main() {
	out := flag.String("out", "dist/images", "the folder for the archives and SBOMs")
	archs := flag.String("archs", runtime.GOARCH, "architectures, as Go calls them, separated by spaces or commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	written, err := images.Ship(ctx, *out, strings.FieldsFunc(*archs, func(r rune) bool { return r == ' ' || r == ',' }))
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(3)
	}
	for _, w := range written {
		fmt.Printf("%s  %s  %s\n", w.Archive, w.Ref, w.Digest)
		for _, i := range w.Images {
			fmt.Printf("  linux/%s  %s\n", i.Arch, i.Digest)
		}
		for _, left := range w.Left {
			fmt.Fprintln(os.Stderr, "images: left out:", left)
		}
	}
}
