// Package probe asks a machine's application how it is, as the probe of its WorkloadGroup says.
//
// In: the probe (Set), whenever that is another one; out: Tell, when what it means for the machine changes, in the words of the first failure. A
// command of a probe runs only where whoever runs the machine has allowed that: the group is written elsewhere.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"github.com/sallyport/sallyport/sidecar/status/appprobe"
	"github.com/sallyport/sallyport/xds/health"
)

// maxOutput is how much is said of what a command printed, in bytes.
const maxOutput = 256

// Prober probes one machine.
type Prober struct {
	Address   netip.Addr // the machine's, which is asked
	AllowExec bool
	// Tell is told of the first verdict, and of each that differs from the one before: "" for well.
	Tell func(problem string)
	// Forget is told that there is no probe any more, and nothing known by it.
	Forget func()

	set  chan *health.Probe
	ask  func(context.Context, health.Probe) error
	told *string
}

// New makes a prober that has no probe yet.
func New(address netip.Addr, allowExec bool, tell func(problem string), forget func()) *Prober {
	p := &Prober{Address: address, AllowExec: allowExec, Tell: tell, Forget: forget, set: make(chan *health.Probe, 1)}
	p.ask = p.perform
	return p
}

// Set gives the probe; nil for none any more. It does not wait.
func (p *Prober) Set(probe *health.Probe) {
	for {
		select {
		case p.set <- probe:
			return
		case <-p.set: // it was not looked at yet
		}
	}
}

// Run probes until ctx ends.
func (p *Prober) Run(ctx context.Context) {
	var probe *health.Probe
	var due <-chan time.Time
	var good, bad int32
	for {
		select {
		case <-ctx.Done():
			return
		case probe = <-p.set:
			if due, good, bad = nil, 0, 0; probe != nil {
				due = time.After(seconds(probe.InitialDelaySeconds, 0))
			} else {
				p.told = nil
				p.Forget()
			}
		case <-due:
			asking, cancel := context.WithTimeout(ctx, seconds(probe.TimeoutSeconds, 1))
			err := p.ask(asking, *probe)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				good, bad = min(good+1, atLeast(probe.SuccessThreshold, 1)), 0
			} else {
				good, bad = 0, min(bad+1, atLeast(probe.FailureThreshold, 3))
			}
			switch {
			case err == nil && good == atLeast(probe.SuccessThreshold, 1):
				p.tell("")
			case err != nil && bad == atLeast(probe.FailureThreshold, 3):
				p.tell(err.Error())
			}
			due = time.After(seconds(probe.PeriodSeconds, 10))
		}
	}
}

// tell says a verdict when it is another one: of two failures the second is no news.
func (p *Prober) tell(problem string) {
	if p.told != nil && (*p.told == "") == (problem == "") {
		return
	}
	p.told = &problem
	p.Tell(problem)
}

func atLeast(n, otherwise int32) int32 {
	if n <= 0 {
		return otherwise
	}
	return n
}

func seconds(n, otherwise int32) time.Duration {
	return time.Duration(atLeast(n, otherwise)) * time.Second
}

// perform asks once.
func (p *Prober) perform(ctx context.Context, probe health.Probe) error {
	if e := probe.Exec; e != nil {
		return p.run(ctx, e.Command)
	}
	return appprobe.Ask(ctx, action(probe), p.Address)
}

// action is what the probe asks of a port.
func action(probe health.Probe) (out appprobe.Probe) {
	switch {
	case probe.HTTPGet != nil:
		out.HTTPGet = &appprobe.HTTPGet{Path: probe.HTTPGet.Path, Port: uint16(probe.HTTPGet.Port), Scheme: probe.HTTPGet.Scheme}
		for _, h := range probe.HTTPGet.Headers {
			out.HTTPGet.Headers = append(out.HTTPGet.Headers, appprobe.Header(h))
		}
	case probe.TCPSocket != nil:
		out.TCPSocket = &appprobe.TCPSocket{Port: uint16(probe.TCPSocket.Port)}
	case probe.GRPC != nil:
		out.GRPC = &appprobe.GRPC{Port: uint16(probe.GRPC.Port), Service: probe.GRPC.Service}
	}
	return out
}

// errNoExec is said of commands that are not run.
var errNoExec = errors.New("the group's probe is a command, and the agent may run none: start it with --exec-probes (SALLYPORT_EXEC_PROBES=true), or write httpGet, tcpSocket or grpc")

// run runs a command of the probe's, as the agent's user.
func (p *Prober) run(ctx context.Context, command []string) error {
	if !p.AllowExec {
		return errNoExec
	}
	if len(command) == 0 {
		return errors.New("the group's probe has an empty command")
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) // whoever runs the machine has allowed it
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.New("it takes too long")
	}
	said := strings.TrimSpace(string(out[:min(len(out), maxOutput)]))
	return fmt.Errorf("the command %s: %w: %s", command[0], err, strings.ToValidUTF8(said, ""))
}
