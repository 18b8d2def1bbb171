package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Each agent of a node has a folder of its own below the run directory, by the name of its pod: what it has from the controller, its audit
// records, and Envoy's socket. What is in the folder of one that does not run any more but records is of no use to others.

func folderOf(runDir, agent string) string { return filepath.Join(runDir, "agents", agent) }

// lockPatience is how long the folder of an agent may be another process's: of its own last life, or of an agent that hands its records in.
const lockPatience = 2 * handInPatience

// ErrTaken says that an agent of that name runs.
var ErrTaken = errors.New("another agent is running in it")

// Claim makes the folder of an agent, which is its own until release is called, or it ends.
func Claim(ctx context.Context, runDir, agent string) (folder string, release func(), err error) {
	folder = folderOf(runDir, agent)
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", nil, err
		}
		release, err := lock(folder)
		if err == nil {
			return folder, release, nil
		}
		select {
		case <-ctx.Done():
			return "", nil, fmt.Errorf("run directory %q: %w", folder, err)
		case <-time.After(lookEvery):
		}
	}
}

// lock takes a folder. The lock ends with the process.
func lock(folder string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	release = func() { _ = f.Close() }
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		release()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrTaken
		}
		return nil, err
	}
	if held, err := f.Stat(); err == nil { // the folder may have been removed meanwhile
		if there, err := os.Stat(f.Name()); err == nil && os.SameFile(held, there) {
			return release, nil
		}
	}
	release()
	return nil, ErrTaken
}

// How often agents that are gone are looked for, and how long their records may take on their way.
const (
	lookForLeft    = 10 * time.Second
	handInPatience = 5 * time.Second
)

// handInLeft hands in what agents of the node left that are gone, and removes their folders, until ctx ends.
func (p *Pods) handInLeft(ctx context.Context) {
	tick := time.NewTicker(lookForLeft)
	defer tick.Stop()
	for {
		if err := p.handInEarlier(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("what an agent of an earlier release left is not handed in yet", "folder", p.cfg.RunDir, "err", err)
		}
		folders, _ := filepath.Glob(folderOf(p.cfg.RunDir, "*"))
		for _, folder := range folders {
			if err := p.handIn(ctx, folder); err != nil && !errors.Is(err, ErrTaken) && ctx.Err() == nil {
				p.cfg.Log.Warn("what an agent left that is gone is not handed in yet", "folder", folder, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// handIn does it for one, if it is gone.
func (p *Pods) handIn(ctx context.Context, folder string) error {
	release, err := lock(folder)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, handInPatience)
	defer cancel()
	if err := p.cfg.HandIn(ctx, folder); err != nil {
		return err
	}
	p.cfg.Log.Info("the folder of an agent that is gone is removed; all its records are handed in", "folder", folder)
	return os.RemoveAll(folder)
}

// handInEarlier does it for an agent of a release in which agents had no folders of their own.
func (p *Pods) handInEarlier(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(p.cfg.RunDir, "spool")); os.IsNotExist(err) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handInPatience)
	defer cancel()
	if err := p.cfg.HandIn(ctx, p.cfg.RunDir); err != nil {
		return err
	}
	var errs []error
	for _, name := range []string{"spool", "state", "envoy.json", "refusing", "agent.sock"} {
		errs = append(errs, os.RemoveAll(filepath.Join(p.cfg.RunDir, name)))
	}
	return errors.Join(errs...)
}
