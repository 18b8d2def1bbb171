package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// options are the flags.
type options struct {
	keep     bool
	loopback bool
	ambient  bool
	only     string
	list     bool
}

func main() {
	var o options
	flag.BoolVar(&o.keep, "keep", false, "leave everything running at the end, to look around, until Ctrl-C")
	flag.BoolVar(&o.loopback, "loopback", false, "play on loopback even where namespaces can be made")
	flag.BoolVar(&o.ambient, "ambient", false, "tell the story of a pod without a sidecar, by its node's one Envoy (needs root)")
	flag.StringVar(&o.only, "only", "", "only these `steps`, comma-separated (see -list)")
	flag.BoolVar(&o.list, "list", false, "list the steps")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := demo(ctx, o)
	stop()
	os.Exit(code)
}

// steps are those of the story that is asked for.
func (o options) steps() []story.Step {
	if o.ambient {
		return story.AmbientSteps()
	}
	return story.Steps()
}

// demo runs the story and gives the exit code: 0 all steps hold, 1 one does not, 2 the call was wrong, 130
// interrupted.
func demo(ctx context.Context, o options) int {
	out := newPrinter(os.Stdout)
	steps, err := choose(o.steps(), o.only)
	if err = errors.Join(err, o.contradiction()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if o.list {
		out.list(steps)
		return 0
	}
	failed, err := tell(ctx, o, steps, out)
	switch {
	case ctx.Err() != nil:
		out.line("interrupted: everything is removed")
		if err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, err)
		}
		return 130
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	case failed > 0:
		return 1
	}
	return 0
}

// tell sets the scene, tries the steps and removes what it made, logs excepted when a step failed.
func tell(ctx context.Context, o options, steps []story.Step, out *printer) (failed int, err error) {
	root, err := story.Root()
	if err != nil {
		return 0, err
	}
	programs, err := story.FindPrograms(root)
	if err != nil {
		return 0, err
	}
	run, err := world.NewRun()
	if err != nil {
		return 0, err
	}
	defer func() {
		if (failed > 0 || err != nil) && ctx.Err() == nil {
			if kept, saveErr := run.SaveLogs(); saveErr == nil {
				out.line("The programs' logs: " + kept)
			}
		}
		err = errors.Join(err, run.Close())
	}()
	scene, err := setScene(ctx, o, run, programs, out)
	if err != nil {
		return 0, fmt.Errorf("setting the scene: %w", err)
	}
	failed = tryAll(ctx, scene, steps, out)
	if o.keep && ctx.Err() == nil {
		out.keep(scene)
		<-ctx.Done()
	}
	return failed, nil
}

func setScene(ctx context.Context, o options, run *world.Run, programs story.Programs, out *printer) (*story.Scene, error) {
	denied := world.CanNamespace()
	if o.ambient {
		if denied != nil {
			return nil, fmt.Errorf("-ambient: %w", denied)
		}
		out.title("One ServiceEntry, without sidecars: app pod → its node's Envoy → egress gateway → outside")
		return story.InAmbient(ctx, run, programs)
	}
	if denied != nil || o.loopback {
		out.title("One ServiceEntry, on loopback: `sallyport up` and curl")
		if denied != nil {
			out.line("(" + denied.Error() + ")")
		}
		return story.OnLoopback(ctx, run, programs)
	}
	out.title("One ServiceEntry, end to end: app pod → egress gateway → outside")
	return story.InNamespaces(ctx, run, programs)
}

// contradiction says which flags do not go together.
func (o options) contradiction() error {
	if o.loopback && o.ambient {
		return errors.New("-ambient -loopback: a node's pods are network namespaces: leave -loopback out")
	}
	return nil
}

func tryAll(ctx context.Context, scene *story.Scene, steps []story.Step, out *printer) (failed int) {
	var held, skipped int
	for _, step := range steps {
		if step.Needs == story.Loopback && scene.Namespaced() {
			continue // about another program
		}
		out.begin(step)
		result := scene.Try(ctx, step)
		if ctx.Err() != nil {
			out.clear()
			return failed
		}
		out.end(result)
		switch {
		case result.Err == nil:
			held++
		case errors.Is(result.Err, story.ErrSkipped):
			skipped++
		default:
			failed++
		}
	}
	out.total(held, failed, skipped)
	return failed
}

// choose keeps the named steps, in the story's order.
func choose(steps []story.Step, only string) ([]story.Step, error) {
	if only == "" {
		return steps, nil
	}
	names := strings.Split(only, ",")
	var ids []string
	for _, s := range steps {
		ids = append(ids, s.ID)
	}
	for _, n := range names {
		if !slices.Contains(ids, n) {
			return nil, fmt.Errorf("-only %q: no such step; the steps are %s", n, strings.Join(ids, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(steps), func(s story.Step) bool { return !slices.Contains(names, s.ID) }), nil
}
