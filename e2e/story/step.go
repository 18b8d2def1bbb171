package story

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Needs says where a step can run.
type Needs int

// The places.
const (
	Anywhere   Needs = iota
	Namespaces       // needs root: pods with redirected traffic and addresses of their own
	Loopback         // about `sallyport up`, which needs no root
)

// Step is one thing that must hold. Steps are told in order, but each brings about itself what it needs, so that it
// can also be run alone.
type Step struct {
	ID    string
	Title string
	Needs Needs
	Run   func(ctx context.Context, s *Scene) error
}

// ErrSkipped marks a step that cannot run on this scene.
var ErrSkipped = errors.New("needs network namespaces, that is root")

// Steps is the whole story.
func Steps() []Step {
	return []Step{
		{"origination", "plain HTTP leaves as TLS", Anywhere, origination},
		{"mtls", "between pod and gateway there is mTLS and nothing else", Namespaces, onlyMTLS},
		{"passthrough", "HTTPS stays the app's own, end to end", Anywhere, passthrough},
		{"allow-any", "ALLOW_ANY: an unregistered host is reached straight from the pod", Namespaces, allowAny},
		{"registry-only", "REGISTRY_ONLY: an unregistered host is closed", Anywhere, registryOnly},
		{"second-entry", "a second ServiceEntry comes and goes while traffic flows", Anywhere, secondEntry},
		{"policy", "a policy denies a registered host to its workloads, tells them why, and is in the record", Anywhere, deniedByPolicy},
		{"dns", "a changed DNS record is followed after its TTL, the cache answers until then", Anywhere, dnsFollowed},
		{"inside", "a name that leads inside is refused, unless the mesh's settings allow it", Namespaces, leadsInside},
		{"controller-killed", "kill -9 of the controller stops no traffic", Namespaces, controllerKilled},
		{"from-disk", "agents and Envoys killed too come back from disk", Namespaces, fromDisk},
		{"audit", "the audit log holds all of it", Anywhere, auditHoldsAll},
		{"memory", "an agent at rest takes at most 30 MiB", Namespaces, smallAgent},
		{"many", "ten thousand registered hosts: a sidecar holds them all, or what its pod uses", Namespaces, manyRegistered},
		{"shutdown", "`sallyport up` ends cleanly", Loopback, cleanShutdown},
	}
}

// Result is how a step went.
type Result struct {
	Step     Step
	Err      error    // nil: it holds; ErrSkipped: it could not be tried here
	Evidence []string // what was seen, a line each
	Took     time.Duration
}

// stepLimit ends a step that hangs, on a machine with much else to do.
const stepLimit = 12 * time.Minute

// Try runs one step on the scene.
func (s *Scene) Try(ctx context.Context, step Step) Result {
	s.evidence, s.stepBegan = nil, time.Now()
	if (step.Needs == Namespaces) != s.Namespaced() && step.Needs != Anywhere {
		return Result{Step: step, Err: ErrSkipped}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, fmt.Errorf("the step's limit of %s had passed", stepLimit))
	defer cancel()
	err := s.programsRun()
	if err == nil {
		err = step.Run(ctx, s)
	}
	if err != nil {
		// A program that died explains more than what failed because of it.
		err = errors.Join(err, s.programsRun())
	}
	return Result{Step: step, Err: err, Evidence: s.evidence, Took: time.Since(s.stepBegan)}
}

// show adds a line of evidence to the step that runs.
func (s *Scene) show(format string, args ...any) {
	s.evidence = append(s.evidence, fmt.Sprintf(format, args...))
}
