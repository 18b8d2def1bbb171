package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/egress/console"
)

// consoleFlags say which configuration the console's pages are about.
type consoleFlags struct{ configDir, up, meshConfig string }

func (f *consoleFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.configDir, "config-dir", "", "directory of YAML files that are in force, for the web page")
	fs.StringVar(&f.up, "up", "", "the same, of a sallyport up")
	fs.StringVar(&f.meshConfig, "mesh-config", "", "file with Istio's MeshConfig, for the web page")
}

// args are the flags for another process.
func (f *consoleFlags) args() []string {
	return []string{"--config-dir", absolute(f.configDir), "--up", absolute(f.up), "--mesh-config", absolute(f.meshConfig)}
}

// reader reads that configuration; nil where there is none.
func (f *consoleFlags) reader() (func(context.Context) (*console.Config, error), error) {
	flag, dir, forward := "--config-dir", f.configDir, ""
	switch {
	case f.configDir != "" && f.up != "":
		return nil, usageError{errors.New("--config-dir and --up: give one of them")}
	case f.up != "":
		flag, dir, forward = "--up", f.up, upNamespace
	case f.configDir == "":
		return nil, nil
	}
	return func(ctx context.Context) (*console.Config, error) {
		s, objects, err := readFiles(ctx, flag, dir, f.meshConfig, io.Discard)
		if err != nil {
			return nil, err
		}
		return &console.Config{Snapshot: s, Objects: objects, Forward: forward}, nil
	}, nil
}
