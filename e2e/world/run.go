package world

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Run is the part of the machine that a process of ours holds for one world: a directory, and the prefix of its namespaces'
// names. A lock on the directory's "lock" file, which the kernel drops when the process ends however it ends, tells
// later runs whether the holder lives.
type Run struct {
	// Dir is the run's directory: world-executable, so that processes under other users reach what is theirs in it.
	Dir string

	prefix string
	lock   *os.File

	mu      sync.Mutex
	closers []func() error
	closed  bool
}

// claiming makes the runs of this process begin and end one after the other: a directory that is not locked yet, or is half removed, looks like
// that of a dead run, and its name may be had again.
var claiming sync.Mutex

// NewRun reclaims what dead runs left behind and claims a directory for this one. A process may hold several runs.
func NewRun() (*Run, error) {
	claiming.Lock()
	defer claiming.Unlock()
	base, err := baseDir()
	if err != nil {
		return nil, err
	}
	if err := reclaim(base); err != nil {
		return nil, fmt.Errorf("reclaiming what an earlier run left behind: %w", err)
	}
	id, err := claim(base)
	if err != nil {
		return nil, fmt.Errorf("claiming a directory for this run: %w", err)
	}
	dir := filepath.Join(base, id)
	lock, err := lockFile(filepath.Join(dir, lockName), os.O_CREATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), os.RemoveAll(dir))
	}
	return &Run{Dir: dir, prefix: namespacePrefix(id), lock: lock}, nil
}

// claim makes the directory of a run: "PID", or "PID.2" and so on where this process holds others.
func claim(base string) (id string, err error) {
	for n := 1; ; n++ {
		id = strconv.Itoa(os.Getpid())
		if n > 1 {
			id += "." + strconv.Itoa(n)
		}
		err = os.Mkdir(filepath.Join(base, id), 0o711)
		if errors.Is(err, os.ErrNotExist) { // another run was the last and took the base away
			if _, err = baseDir(); err == nil {
				err = os.Mkdir(filepath.Join(base, id), 0o711)
			}
		}
		if !errors.Is(err, os.ErrExist) {
			return id, err
		}
	}
}

// OnClose adds what Close has to undo. The last added is the first undone.
func (r *Run) OnClose(undo func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closers = append(r.closers, undo)
}

// Close undoes everything, in the reverse order, and removes the directory. It goes on after an error and may be
// called again.
func (r *Run) Close() error {
	r.mu.Lock()
	closers, done := r.closers, r.closed
	r.closers, r.closed = nil, true
	r.mu.Unlock()
	if done {
		return nil
	}
	var errs []error
	for i := len(closers) - 1; i >= 0; i-- {
		errs = append(errs, closers[i]())
	}
	claiming.Lock()
	defer claiming.Unlock()
	errs = append(errs, os.RemoveAll(r.Dir), r.lock.Close())
	_ = os.Remove(filepath.Dir(r.Dir)) // only when this was the last run, for a directory that is not empty stays
	return errors.Join(errs...)
}

// MkdirOwned makes DIR/name for the given user, closed to others.
func (r *Run) MkdirOwned(name string, uid int) (string, error) {
	dir := filepath.Join(r.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if os.Geteuid() != 0 {
		return dir, nil
	}
	return dir, os.Chown(dir, uid, uid)
}

const lockName = "lock"

func namespacePrefix(id string) string { return "sp-" + id + "-" }

// baseDir is the one place that holds the directories of all runs of this user. Its name is fixed, therefore a
// directory there that somebody else made is refused.
func baseDir() (string, error) {
	base := filepath.Join(os.TempDir(), "sallyport-e2e-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(base, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a directory of this user's own: remove it, or set TMPDIR to another place", base)
	}
	return base, nil
}

// lockFile opens the file and locks it, or fails at once when another process holds the lock. With the flag os.O_CREATE it makes it.
func lockFile(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
