package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/egress/audit/spool"
)

// fullEvery is how often is looked whether records still have room. What comes in between has the spool's reserve.
const fullEvery = 250 * time.Millisecond

// fullness makes Envoy refuse what is new while records of it might have no room, where the mesh wants that
// (sallyport.audit.whenFull: deny). Envoy's overload manager watches a file for it, of which there are two: one says yes, one says no, and they change
// places, for which a full disk has room.
type fullness struct {
	log   *slog.Logger
	spool *spool.Spool
	file  string

	deny     atomic.Bool // as the mesh wants it
	refusing atomic.Bool

	mu sync.Mutex // of look
}

// The contents of the two files: what Envoy takes for a pressure.
const (
	refuseNothing = "0\n"
	refuseNew     = "1\n"
)

// newFullness makes the files, or takes those of an agent that was killed: what it refused is refused until it is known what the mesh wants, and looked whether there is room.
func newFullness(log *slog.Logger, s *spool.Spool, file string) (*fullness, error) {
	f := &fullness{log: log, spool: s, file: file}
	said, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("what Envoy is told about a full disk: %w", err)
	}
	says, other := refuseNothing, refuseNew
	if string(said) == refuseNew {
		says, other = refuseNew, refuseNothing
		f.refusing.Store(true)
		log.Warn("there was no room for audit records: connections and requests are refused as before the restart until it is known whether there is (sallyport.audit.whenFull: deny)")
	}
	if err := errors.Join(provide(f.spare(), []byte(other)), provide(f.file, []byte(says))); err != nil {
		return nil, fmt.Errorf("what Envoy is told about a full disk: %w", err)
	}
	return f, nil
}

func (f *fullness) spare() string { return f.file + ".other" }

// want takes what the mesh wants.
func (f *fullness) want(deny bool) {
	if f.deny.Swap(deny) != deny {
		f.look()
	}
}

// run looks until ctx ends.
func (f *fullness) run(ctx context.Context) {
	tick := time.NewTicker(fullEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look()
		}
	}
}

// look tells Envoy when that changes: it refuses when the reserve is touched, and no longer when there is twice as much room.
func (f *fullness) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, deny := f.refusing.Load(), f.deny.Load()
	if !was && !deny {
		return
	}
	enough := f.spool.Reserve()
	if was {
		enough *= 2
	}
	room := f.spool.Room()
	refuse := deny && room < enough
	if refuse == was {
		return
	}
	if err := f.swap(); err != nil {
		f.log.Error("Envoy cannot be told whether there is room for audit records; it is tried again", "refuse", refuse, "err", err)
		return
	}
	f.refusing.Store(refuse)
	if refuse {
		f.log.Error("there is no room for audit records: connections and requests are refused until there is (sallyport.audit.whenFull: deny)",
			"room_bytes", room, "wanted_bytes", enough)
	} else {
		f.log.Info("there is room for audit records: connections and requests are taken again", "room_bytes", room)
	}
}

// swap lets the two files change places.
func (f *fullness) swap() error {
	err := unix.Renameat2(unix.AT_FDCWD, f.spare(), unix.AT_FDCWD, f.file, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	content := refuseNew // a file system that cannot; there the disk must have a little room
	if f.refusing.Load() {
		content = refuseNothing
	}
	return replaceFile(f.file, []byte(content))
}

// refusingStat is how Envoy has read what it is told, in percent.
const refusingStat = "overload.envoy.resource_monitors.injected_resource.pressure"

// hold waits until Envoy refuses what is new, where it is to. It reads what it is told a quarter of a second after it has begun, and what has listeners by then takes all that comes. It acts upon it at once, or
// with its next look, where another monitor has nothing to read.
func (f *fullness) hold(ctx context.Context, pressure func(context.Context) (percent uint64, err error)) {
	read := false
	for f.refusing.Load() && !read {
		percent, err := pressure(ctx)
		wait := fullEvery / 5
		if read = err == nil && percent > 0; read {
			wait = 2 * fullEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// says is why the proxy is not ready, or "".
func (f *fullness) says() string {
	if f.refusing.Load() {
		return "there is no room for audit records (sallyport.audit.whenFull: deny)"
	}
	return ""
}
