package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/review/apply"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/egress/suggest"
)

// mayApply says whether there is something to apply to.
func (f *reviewFlags) mayApply() error {
	switch {
	case !f.apply:
	case f.source.up != "" || f.source.configDir != "":
		return usageError{errors.New("--apply: it is for a cluster's objects (--kubeconfig); of a directory name a file with --write")}
	case !f.log.cluster.meant():
		return usageError{errors.New("--apply: which cluster? give --kubeconfig FILE")}
	}
	return nil
}

// prepare finds out whether the API server would take the objects from the kubeconfig's user, and changes nothing.
func (f *reviewFlags) prepare(ctx context.Context, l looked, changes []suggest.Change) (apply.Prepared, error) {
	var there, more []config.Object
	for _, c := range l.inForce.Objects {
		if c.Object != nil {
			there = append(there, *c.Object)
		}
	}
	for _, c := range changes {
		more = append(more, *c.After)
	}
	for _, x := range simulate.Objections(there, simulate.Applied(there, more), more, *l.inForce.Snapshot.Mesh, l.now) {
		if x.Severity == admission.Error {
			return nil, fmt.Errorf("--apply: %s", x)
		}
	}
	access, err := f.log.cluster.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	ready, err := apply.Prepare(ctx, access, changes)
	if err != nil {
		return nil, fmt.Errorf("--apply: %w; without it the objects are printed, for somebody who may", err)
	}
	return ready, nil
}

// applied records what is about to be applied, and applies it.
func (f *reviewFlags) applied(cmd *cobra.Command, item *review.Item, ready apply.Prepared) error {
	if !f.apply {
		return nil
	}
	if err := f.tell(cmd.Context(), item, actions.Applied, ready.String()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), answerWithin)
	defer cancel()
	if err := ready.Apply(ctx); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "sallyport: applied: %s\n", ready)
	return nil
}

// tell records what the caller does about an item.
func (f *reviewFlags) tell(ctx context.Context, item *review.Item, action, reason string) error {
	who, err := caller()
	if err != nil {
		return err
	}
	return f.log.tell(ctx, record.Record{
		Actor: who, Action: action, Reason: reason, URLPath: "sallyport review", Host: item.Host, Port: item.Port,
		Workload: record.Workload{Namespace: item.Namespace, ServiceAccount: item.Workload},
	})
}
