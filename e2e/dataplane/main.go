package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	done, err := role(ctx, os.Args[1:])
	if !done {
		err = measure(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// role plays a part inside a namespace, if the arguments say so.
func role(ctx context.Context, args []string) (done bool, err error) {
	switch {
	case len(args) == 2 && args[0] == "client":
		return true, client(ctx, args[1])
	case len(args) == 4 && args[0] == "server":
		return true, upstream(ctx, args[1], args[2], args[3])
	case len(args) == 2 && args[0] == "app":
		return true, app(ctx, args[1])
	}
	return false, nil
}

func measure(ctx context.Context) error {
	p := plan{progress: os.Stderr}
	var hosts, doc, only, with string
	var noLog bool
	ambient := ambientPlan{pause: givenBack}
	var policies, names int
	flag.StringVar(&hosts, "hosts", "1,1000", "how many hosts are registered: `sizes` of meshes, comma-separated")
	flag.IntVar(&p.rounds, "rounds", 7, "how often each load is measured on each side")
	flag.IntVar(&p.clients, "clients", 16, "how many clients make requests")
	flag.DurationVar(&p.warm, "warm", 500*time.Millisecond, "how long each round goes on before it counts")
	flag.DurationVar(&p.duration, "duration", 2*time.Second, "how long each round counts")
	flag.StringVar(&only, "only", "", "measure only loads whose names `contain` this")
	flag.BoolVar(&noLog, "without-log", false, "let the static Envoys write no access log")
	flag.StringVar(&with, "with", "", "`file` of objects that the programmed side has beside the hosts: policies for app in default, say")
	flag.IntVar(&policies, "policies", 0, "measure instead what so many EgressPolicies, of 500 namespaces, cost a request: the programmed side with and without them; -hosts is 10000 then, unless it is given")
	flag.IntVar(&names, "names", 0, "measure instead what an ingress gateway's proxy takes for a name, of so many")
	flag.StringVar(&doc, "doc", "", "`file` to keep the table in, between its markers")
	flag.BoolVar(&ambient.on, "ambient", false, "measure a node's proxy for pods without sidecars, beside sidecars")
	flag.IntVar(&ambient.pods, "pods", 250, "with -ambient: how many `pods` the node has in the end")
	flag.IntVar(&ambient.sidecars, "sidecars", 5, "with -ambient: how many `sidecars` are measured for what as many as there are pods take")
	flag.Parse()
	if policies > 0 && !given("hosts") {
		hosts = "10000"
	}
	for size := range strings.SplitSeq(hosts, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return fmt.Errorf("-hosts %q: %w", hosts, err)
		}
		p.hosts = append(p.hosts, n)
	}
	for _, l := range loads {
		if strings.Contains(l.Name, only) && (policies == 0 || l.Way == egress) {
			p.loads = append(p.loads, l)
		}
	}
	if len(p.loads) == 0 {
		return fmt.Errorf("-only %q: no load is called so: %s", only, strings.Join(loadNames(), "; "))
	}
	if ambient.on {
		return measureAmbient(ctx, p, ambient, doc)
	}
	stage, err := setStage(ctx, !noLog, policies > 0 || names > 0)
	if err != nil {
		return errors.Join(err, stage.close())
	}
	if names > 0 {
		return errors.Join(measureNames(ctx, stage.ours, max(names, 2)), stage.close())
	}
	if policies > 0 {
		all, err := comparePolicies(ctx, stage.ours, p, policies)
		if err := errors.Join(err, stage.close()); err != nil {
			return err
		}
		fmt.Print(policiesTable(all))
		if doc == "" {
			return nil
		}
		return between(doc, policiesBegin, policiesEnd, policiesHead(p, policies)+policiesTable(all))
	}
	if with != "" {
		if err := stage.ours.have(with); err != nil {
			return errors.Join(err, stage.close())
		}
	}
	all, err := compare(ctx, stage.ours, stage.written, p)
	if err := errors.Join(err, stage.close()); err != nil {
		return err
	}
	fmt.Print(table(all))
	if doc == "" {
		return nil
	}
	how := "the static Envoys write Istio's default access log to a file"
	if noLog {
		how = "the static Envoys write no access log"
	}
	return keep(doc, p, how, all)
}

// stage is both sides.
type stage struct {
	ours    *programmed
	written *side
	runs    []*world.Run
}

// given says whether a flag is.
func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// setStage needs root. What it made has to be closed, also after an error. Without the written side it is alone.
func setStage(ctx context.Context, log, alone bool) (*stage, error) {
	st := &stage{}
	self, programs, err := backstage()
	if err != nil {
		return st, err
	}
	for range 2 {
		run, err := world.NewRun()
		if err != nil {
			return st, err
		}
		st.runs = append(st.runs, run)
	}
	if st.ours, err = newProgrammed(ctx, st.runs[0], programs, self); err != nil {
		return st, fmt.Errorf("setting the programmed side: %w", err)
	}
	if alone {
		return st, nil
	}
	if st.written, err = byHand(ctx, st.runs[1], st.ours, self, log); err != nil {
		return st, fmt.Errorf("setting the static side: %w", err)
	}
	return st, nil
}

// backstage finds this program and those that it measures. It needs root.
func backstage() (self string, programs story.Programs, err error) {
	if os.Geteuid() != 0 {
		return "", programs, errors.New("network namespaces need root")
	}
	if err := world.CanNamespace(); err != nil {
		return "", programs, err
	}
	if self, err = os.Executable(); err != nil {
		return "", programs, err
	}
	root, err := story.Root()
	if err != nil {
		return "", programs, err
	}
	programs, err = story.FindPrograms(root)
	return filepath.Clean(self), programs, err
}

func (s *stage) close() error {
	var errs []error
	for i := len(s.runs) - 1; i >= 0; i-- {
		errs = append(errs, s.runs[i].Close())
	}
	return errors.Join(errs...)
}
