package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// sides reads the configuration as it is, and makes it as it would be.
func (f *simulateFlags) sides(cmd *cobra.Command, now time.Time) (*simulate.Sides, error) {
	base, inForce, err := f.readBase(cmd)
	if err != nil {
		return nil, err
	}
	var there []config.Object
	for _, c := range inForce {
		if c.Object != nil {
			there = append(there, *c.Object)
		}
	}
	changes, err := f.candidate(cmd, *base.Snapshot().Mesh, there, now)
	if err != nil {
		return nil, err
	}
	return simulate.Propose(base, inForce, changes, now), nil
}

// readBase reads the configuration as it is.
func (f *simulateFlags) readBase(cmd *cobra.Command) (*registry.Registry, []config.Change, error) {
	ctx, errs := cmd.Context(), cmd.ErrOrStderr()
	switch s := &f.source; {
	case s.configDir != "":
		return readFiles(ctx, "--config-dir", s.configDir, s.meshConfig, errs)
	case s.up != "":
		return readFiles(ctx, "--up", s.up, s.meshConfig, errs)
	default:
		access, err := s.cluster.open(ctx)
		if err != nil {
			return nil, nil, err
		}
		return s.readObjects(ctx, access, errs)
	}
}

// candidate gives what changes. What admission says of those that change is printed; if it refuses one, that is the answer.
func (f *simulateFlags) candidate(cmd *cobra.Command, settings mesh.Config, there []config.Object, now time.Time) ([]config.Change, error) {
	var said lintResult
	var more []config.Object
	for _, file := range f.files {
		found, err := lintArgument(cmd.InOrStdin(), file, &said)
		if err != nil {
			return nil, program.Misuse(fmt.Errorf("-f: %w", err))
		}
		more = append(more, found...)
	}
	if len(more) == 0 && len(f.files) > 0 && said.Errors == 0 {
		return nil, program.Misuse(fmt.Errorf("-f %s: there are no objects in it", strings.Join(f.files, " -f ")))
	}
	left, err := f.without(there)
	if err != nil {
		return nil, program.Misuse(err)
	}
	dated(more, there, f.source.cluster.given(), now)
	would := simulate.Applied(left, more)
	said.add(simulate.Objections(there, would, more, settings, now))
	if err := said.text(cmd.ErrOrStderr()); err != nil {
		return nil, err
	}
	if said.Errors > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "sallyport: the change would be refused: %d errors\n", said.Errors)
		return nil, program.AnswerNo{}
	}
	changes, stays := simulate.Put(more), map[config.Key]bool{}
	for i := range would {
		stays[would[i].Key] = true
	}
	for i := range there {
		if key := there[i].Key; !stays[key] {
			changes = append(changes, config.Change{Key: key})
		}
	}
	return changes, nil
}

// without takes those away that shall go.
func (f *simulateFlags) without(there []config.Object) ([]config.Object, error) {
	left := slices.Clone(there)
	for _, text := range f.removed {
		parts := strings.Split(text, "/")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("--remove %q: must be KIND/NAMESPACE/NAME, like ServiceEntry/default/external", text)
		}
		is := func(o config.Object) bool {
			return strings.EqualFold(string(o.Kind), parts[0]) && o.Namespace == parts[1] && o.Name == parts[2]
		}
		if !slices.ContainsFunc(left, is) {
			return nil, fmt.Errorf("--remove %q: there is no such object in the configuration", text)
		}
		left = slices.DeleteFunc(left, is)
	}
	return left, nil
}

// dated gives objects the age that they would have: that of those whose place they take, or, in a cluster, none.
func dated(more, there []config.Object, cluster bool, now time.Time) {
	for i := range more {
		o := &more[i]
		o.Created = time.Time{}
		if cluster {
			o.Created = now
		}
		if at := slices.IndexFunc(there, func(x config.Object) bool { return x.Key == o.Key }); at >= 0 {
			o.Created = there[at].Created
		}
	}
}
