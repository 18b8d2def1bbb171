package main

import (
	"context"
	"fmt"
	"io"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/dir"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// readCluster makes a snapshot of a cluster, and gives the workloads that are asked about the labels that they have there. What the
// control plane does not use is said.
func (f *explainFlags) readCluster(ctx context.Context, from, to *policy.Workload, errs io.Writer) (*registry.Snapshot, error) {
	access, err := f.cluster.open(ctx)
	if err != nil {
		return nil, err
	}
	for flag, w := range map[string]*policy.Workload{"--from": from, "--to": to} {
		if flag == "--from" && f.question.From == "" || flag == "--to" && f.question.To == "" {
			continue
		}
		if *w, err = access.identify(ctx, flag, *w); err != nil {
			return nil, err
		}
	}
	r, _, err := f.readObjects(ctx, access, errs)
	if err != nil {
		return nil, err
	}
	return r.Snapshot(), nil
}

// readObjects makes a registry of a cluster, and gives the objects that it is made of.
func (f *explainFlags) readObjects(ctx context.Context, access *clusterAccess, errs io.Writer) (*registry.Registry, []config.Change, error) {
	settings, err := access.settings(ctx, f.meshConfig)
	if err != nil {
		return nil, nil, err
	}
	changes, findings, err := access.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, finding := range findings {
		if finding.Severity == admission.Error && finding.Key.Kind == config.KindSecret { // which whoever asks may not read
			f.question.Secrets = registry.SecretsUnseen
		}
		switch {
		case finding.Severity != admission.Error:
		case finding.Key.Name == "": // of what cannot be read, nobody knows what it would decide
			return nil, nil, fmt.Errorf("no access: %s; %s", finding, access.viewer())
		default:
			fmt.Fprintln(errs, finding)
		}
	}
	r := registry.New(&settings)
	r.SetControlPlane(access.service(), nil)
	r.Apply(changes)
	return r, changes, nil
}

// readOnce makes a snapshot of a directory. What is wrong there is said, and the rest counts, as the control plane
// would have it.
func readOnce(ctx context.Context, flag, configDir, meshConfig string, errs io.Writer) (*registry.Snapshot, error) {
	r, _, err := readFiles(ctx, flag, configDir, meshConfig, errs)
	if err != nil {
		return nil, err
	}
	return r.Snapshot(), nil
}

// readFiles makes a registry of a directory in the same way, and gives the objects that it is made of. The control plane is taken to be on this
// machine, and where the directory's Service for it says.
func readFiles(ctx context.Context, flag, configDir, meshConfig string, errs io.Writer) (*registry.Registry, []config.Change, error) {
	settings := mesh.Default()
	if meshConfig != "" {
		var err error
		if settings, err = mesh.Load(meshConfig); err != nil {
			return nil, nil, program.Misuse(err)
		}
	}
	var changes []config.Change
	var findings []admission.Finding
	ctx, done := context.WithCancel(ctx)
	defer done()
	first := true
	err := dir.New(configDir, dir.Options{}).Run(ctx, func(c []config.Change, f []admission.Finding) {
		if first {
			changes, findings, first = c, f, false
		}
		done()
	})
	if first {
		if err == nil {
			err = ctx.Err()
		}
		return nil, nil, fmt.Errorf("%s %q: %w", flag, configDir, err)
	}
	for _, f := range findings {
		fmt.Fprintln(errs, f)
	}
	r := registry.New(&settings)
	r.SetControlPlane(registry.Ref{}, controlplane.OwnAddresses())
	r.Apply(changes)
	return r, changes, nil
}
