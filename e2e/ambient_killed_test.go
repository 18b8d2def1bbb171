package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// envoyKilled holds that nothing passes without Envoy, what was closed at no moment, and everything again when it is back; and says what that took.
func (a *ambientNode) envoyKilled(t *testing.T) {
	for i := range 2 {
		// One that has just been started is not started again at once.
		if err := a.livedLong(); err != nil {
			t.Fatal(err)
		}
		stays := a.staysClosed()
		envoy, err := a.envoy()
		if err != nil {
			t.Fatal(err)
		}
		back, err := a.backAfter(func() error { return syscall.Kill(envoy, syscall.SIGKILL) })
		tries, through := stays()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("killed %d times; %s; meanwhile %d tries of what is closed, all in vain", i+1, back, tries)
		if through != "" {
			t.Errorf("while Envoy was away, or as it came back: %s", through)
		}
		if tries == 0 {
			t.Error("nothing was tried meanwhile")
		}
	}
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		a.until(t, p, "mesh.ambient.test", true)
		a.until(t, p, "free.ambient.test", false)
	}
}

// killedAlone holds that what follows a killed Envoy waits for nobody: it has everything while a controller that is there says nothing.
func (a *ambientNode) killedAlone(t *testing.T) {
	controller := a.scene.Controller.PID()
	a.killedWithout(t, func() error { return syscall.Kill(controller, syscall.SIGSTOP) }, func() error { return syscall.Kill(controller, syscall.SIGCONT) })
}

// killedBeside holds the same while there is no controller.
func (a *ambientNode) killedBeside(t *testing.T) {
	a.killedWithout(t, func() error { return a.scene.KillController(a.ctx) }, func() error { return a.scene.StartController(a.ctx) })
}

// killedWithout takes the controller away, kills Envoy, and has the controller back.
func (a *ambientNode) killedWithout(t *testing.T, away, back func() error) {
	if err := a.livedLong(); err != nil {
		t.Fatal(err)
	}
	envoy, err := a.envoy()
	if err != nil {
		t.Fatal(err)
	}
	if err := away(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := back(); err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	if err := syscall.Kill(envoy, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(a.ctx, 2*time.Minute, func() error { _, err := a.lastLogged("Envoy started", began); return err }); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		a.until(t, p, "mesh.ambient.test", true)
		a.until(t, p, "free.ambient.test", false)
	}
	if at, err := a.lastLogged("the controller does not answer; Envoy is served from disk", began); err == nil {
		t.Errorf("the controller was waited for, until %v after the kill", at.Sub(began))
	}
}

// settledFor is how long Envoy has to live to be started again at once (supervise.Config.Settled), and a little.
const settledFor = 6 * time.Second

// livedLong waits until Envoy has lived for so long.
func (a *ambientNode) livedLong() error {
	return world.Within(a.ctx, time.Minute, func() error {
		at, err := a.lastLogged("Envoy started", time.Time{})
		if err == nil && time.Since(at) < settledFor {
			err = fmt.Errorf("Envoy was started %v ago", time.Since(at))
		}
		return err
	})
}

// lastLogged is when the node's agent last wrote a message, after some time.
func (a *ambientNode) lastLogged(message string, after time.Time) (last time.Time, err error) {
	text, err := os.ReadFile(a.node.Process.Log)
	if err != nil {
		return last, err
	}
	for line := range strings.Lines(string(text)) {
		stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
		if !strings.Contains(rest, fmt.Sprintf("msg=%q", message)) {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && !at.Before(after.Truncate(time.Millisecond)) {
			last = at
		}
	}
	if last.IsZero() {
		return last, fmt.Errorf("the agent has not written %q since %v", message, after)
	}
	return last, nil
}

// staysClosed tries what is closed, without a break, until the function that it gives is called, which says how often that was, and what got through.
func (a *ambientNode) staysClosed() func() (tries int, through string) {
	ctx, end := context.WithCancel(a.ctx)
	var trying sync.WaitGroup
	var mu sync.Mutex
	tries, through := 0, ""
	for scheme, port := range ambientPorts {
		for _, p := range []*ambientPod{a.alpha, a.beta} {
			trying.Go(func() {
				c := p.caller.at(world.OutsideAddrs[0])
				c.patience = time.Second
				for ctx.Err() == nil {
					seen, err := c.try(ctx, scheme, "free.ambient.test", port, "/")
					mu.Lock()
					if tries++; err == nil {
						through = fmt.Sprintf("%s of %s reached the server as %v", scheme, p.name, seen)
					}
					mu.Unlock()
				}
			})
		}
	}
	return func() (int, string) {
		end()
		trying.Wait()
		return tries, through
	}
}

// kills ends a node's agent at once, and waits until its Envoy has ended, too, which the kernel does a moment later: until then that takes connections, which end with it.
func (a *ambientNode) kills(n *story.Node) error {
	below, err := world.Descendants(n.Process.PID())
	if err != nil {
		return err
	}
	if err := n.Process.Kill(); err != nil {
		return err
	}
	return world.Within(a.ctx, time.Minute, func() error {
		for _, p := range below {
			if p.Exists() {
				return fmt.Errorf("%s runs still", p)
			}
		}
		return nil
	})
}

// envoy is the process that the agent runs.
func (a *ambientNode) envoy() (int, error) {
	var all []byte // its threads' children
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.node.Process.PID()))
	for _, file := range tasks {
		more, err := os.ReadFile(file)
		if err == nil {
			all = append(append(all, ' '), more...)
		}
	}
	for _, word := range strings.Fields(string(all)) {
		name, err := os.ReadFile("/proc/" + word + "/comm")
		if err == nil && strings.TrimSpace(string(name)) == "envoy" {
			return strconv.Atoi(word)
		}
	}
	return 0, errors.Join(errors.New("the agent runs no Envoy"), err)
}

// used is the processor time that the Envoy has taken so far, in the kernel's ticks of 10 ms (proc(5) stat).
func (a *ambientNode) used() (time.Duration, error) {
	envoy, err := a.envoy()
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", envoy))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", envoy, text)
	}
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err, err2)
}

// comeback is how long a pod's new requests got nowhere, and what that was made of, each from the moment before.
type comeback struct {
	started, listens, answered time.Duration
	used                       time.Duration // of a processor, by the new Envoy until then
}

func (c comeback) String() string {
	return fmt.Sprintf("back after %v: %v until the agent started it again, %v until its listeners are open in the pod, %v until a request was answered, by %v of processor time of the new one's",
		(c.started + c.listens + c.answered).Round(time.Millisecond), c.started.Round(time.Millisecond), c.listens.Round(time.Millisecond), c.answered.Round(time.Millisecond), c.used)
}

// backAfter does something to Envoy, and says what it took until it was back.
func (a *ambientNode) backAfter(do func() error) (c comeback, err error) {
	ctx, end := context.WithTimeout(a.ctx, 3*time.Minute)
	defer end()
	began := time.Now()
	if err := do(); err != nil {
		return c, err
	}
	if err := world.Poll(ctx, time.Millisecond, func() error {
		if _, err := a.lastLogged("Envoy started", began); err == nil {
			return nil // it is back already, before anybody could look
		}
		return a.takes(false)
	}); err != nil {
		return c, err
	}
	listens, answered := make(chan time.Time, 1), make(chan time.Time, 1)
	var failed [2]error
	var waiting sync.WaitGroup
	waiting.Go(func() {
		failed[0] = world.Poll(ctx, 2*time.Millisecond, func() error { return a.takes(true) })
		listens <- time.Now()
	})
	waiting.Go(func() {
		failed[1] = world.Poll(ctx, 2*time.Millisecond, func() error {
			ctx, end := context.WithTimeout(ctx, tryWithin)
			defer end()
			_, err := a.alpha.try(ctx, "http", "mesh.ambient.test", ambientHTTP, "/")
			return err
		})
		answered <- time.Now()
	})
	waiting.Wait()
	c.used, err = a.used()
	if err != nil {
		return c, err
	}
	started, err := a.lastLogged("Envoy started", began)
	if err := errors.Join(err, failed[0], failed[1]); err != nil {
		return c, err
	}
	open, answer := <-listens, <-answered
	return comeback{started.Sub(began), open.Sub(started), max(answer.Sub(open), 0), c.used}, nil
}

// takes says whether Envoy takes alpha's connections, or does not, as it should.
func (a *ambientNode) takes(want bool) error {
	return a.alpha.host.Do(func() error {
		conn, err := net.DialTimeout("tcp4", "127.0.0.1:15001", time.Second)
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != want {
			return fmt.Errorf("port 15001 is open: %t, want %t", err == nil, want)
		}
		return nil
	})
}
