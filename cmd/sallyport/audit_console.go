package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/console"
	"github.com/sallyport/sallyport/egress/console/inforce"
)

// consoleFlags say which configuration the console's pages are about.
type consoleFlags struct {
	configDir, up, meshConfig string
	cluster                   bool // the cluster's, of the kubeconfig that the login asks, too
}

func (f *consoleFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.configDir, "config-dir", "", "directory of YAML files that are in force, for the web page")
	fs.StringVar(&f.up, "up", "", "the same, of a sallyport up")
	fs.StringVar(&f.meshConfig, "mesh-config", "", "file with Istio's MeshConfig, for the web page")
}

// addCluster declares what only an audit server has that is started by itself.
func (f *consoleFlags) addCluster(fs *pflag.FlagSet) {
	fs.BoolVar(&f.cluster, "console-cluster", false, "the web page knows the configuration of the cluster (that of --console-kubeconfig): it is watched while somebody asks. "+
		"Without --mesh-config the mesh's settings are the defaults")
}

// args are the flags for another process.
func (f *consoleFlags) args() []string {
	return []string{"--config-dir", absolute(f.configDir), "--up", absolute(f.up), "--mesh-config", absolute(f.meshConfig)}
}

// configReader reads the configuration in force.
type configReader func(context.Context) (*console.Config, error)

// reader reads that configuration, and gives what has to run beside; nil where there is none.
func (f *consoleFlags) reader(kubeconfig string, log *slog.Logger) (configReader, auditJob, error) {
	if !f.cluster {
		read, err := f.files()
		return read, nil, err
	}
	if f.configDir != "" || f.up != "" {
		return nil, nil, program.Misuse(errors.New("--console-cluster, --config-dir and --up: give one of them"))
	}
	access, err := kube.Connect(kubeconfig, "")
	if err != nil {
		return nil, nil, program.Misuse(fmt.Errorf("--console-cluster: %w", err))
	}
	access.UserAgent = "sallyport-console/" + version
	r := inforce.New(inforce.Options{Access: access, Logger: log, Mesh: func() (mesh.Config, error) {
		if f.meshConfig == "" {
			return mesh.Default(), nil
		}
		return mesh.Load(f.meshConfig)
	}})
	return r.Config, func(ctx context.Context, _ *store.Store) error { return r.Run(ctx) }, nil
}

// files reads a directory.
func (f *consoleFlags) files() (configReader, error) {
	flag, dir, forward := "--config-dir", f.configDir, ""
	switch {
	case f.configDir != "" && f.up != "":
		return nil, program.Misuse(errors.New("--config-dir and --up: give one of them"))
	case f.up != "":
		flag, dir, forward = "--up", f.up, upNamespace
	case f.configDir == "":
		return nil, nil
	}
	return console.Lately(func(ctx context.Context) (*console.Config, error) {
		r, objects, err := readFiles(ctx, flag, dir, f.meshConfig, io.Discard)
		if err != nil {
			return nil, err
		}
		return (&console.Config{Objects: objects, Forward: forward}).Lending(r), nil
	}), nil
}
