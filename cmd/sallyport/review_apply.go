package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sallyport/sallyport/cmd/program"
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
	case f.apply && f.output == "json" && !f.yes && !f.dryRun:
		return program.Misuse(errors.New("-o json: with --apply give --yes, or --dry-run: a question has no place in it"))
	case !f.apply && (f.yes || f.dryRun):
		return program.Misuse(errors.New("--yes and --dry-run: they are about --apply"))
	case !f.apply:
	case f.yes && f.dryRun:
		return program.Misuse(errors.New("--yes and --dry-run: give one of them"))
	case f.write != "":
		return program.Misuse(errors.New("--write and --apply: give one of them; what is applied is printed"))
	case f.source.up != "" || f.source.configDir != "":
		return program.Misuse(errors.New("--apply: it is for a cluster's objects (--kubeconfig); of a directory name a file with --write"))
	case !f.log.cluster.meant():
		return program.Misuse(errors.New("--apply: which cluster? give --kubeconfig FILE"))
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

// errOnlyShown ends what was to be shown only.
var errOnlyShown = errors.New("it is only shown")

// agreed shows what is to be applied, and says whether it is to be.
func (f *reviewFlags) agreed(cmd *cobra.Command, word review.Decision, text []byte) error {
	if f.yes {
		return nil
	}
	terminal, is := cmd.InOrStdin().(*os.File)
	if is = is && term.IsTerminal(int(terminal.Fd())); !is && !f.dryRun {
		return program.Misuse(errors.New("--apply: there is no terminal to ask on: give --yes, or --dry-run to see the objects"))
	}
	if err := f.handOut(cmd, decided{Decision: word, DryRun: f.dryRun}, text); err != nil {
		return err
	}
	if f.dryRun {
		fmt.Fprintln(cmd.ErrOrStderr(), "sallyport: the API server would take these from you; nothing is approved, and nothing applied")
		return errOnlyShown
	}
	return agrees(cmd.Context(), terminal, cmd.ErrOrStderr())
}

// agrees waits for a yes; anything else is a no.
func agrees(ctx context.Context, in io.Reader, out io.Writer) error {
	fmt.Fprint(out, "sallyport: approve and apply these? [y/N] ")
	line := make(chan string, 1)
	go func() { // ends with the line, or with the process
		text, _ := bufio.NewReader(in).ReadString('\n') // no line is a no
		line <- text
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case text := <-line:
		if text = strings.ToLower(strings.TrimSpace(text)); text == "y" || text == "yes" {
			return nil
		}
	}
	fmt.Fprintln(out, "sallyport: nothing is approved, and nothing applied")
	return program.AnswerNo{}
}

// applied records what is about to be applied, and applies it, whether or not somebody interrupts it then.
func (f *reviewFlags) applied(cmd *cobra.Command, item *review.Item, ready apply.Prepared) error {
	if err := f.tell(cmd.Context(), item, actions.Applied, ready.String()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), answerWithin)
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
