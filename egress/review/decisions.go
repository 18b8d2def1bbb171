package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/sallyport/sallyport/egress/audit/durable"
)

// Decision is somebody's word about an item.
type Decision struct {
	ID        string    `json:"id"`
	Action    string    `json:"action"` // approved, rejected or snoozed
	At        time.Time `json:"at"`
	By        string    `json:"by"`
	Reason    string    `json:"reason,omitempty"`
	Until     time.Time `json:"until,omitzero"` // of snoozed
	Namespace string    `json:"namespace"`
	Workload  string    `json:"workload"`
	Host      string    `json:"host"`
	Port      uint32    `json:"port,omitempty"`
	// Last and Records are the evidence at that time.
	Last    time.Time `json:"last,omitzero"`
	Records uint64    `json:"records,omitempty"`
}

// MaxReason is how many bytes of reason a decision has at most.
const MaxReason = 256

// CheckReason says what is wrong with a reason.
func CheckReason(text string) error {
	switch {
	case len(text) > MaxReason:
		return fmt.Errorf("it has %d bytes, at most %d are kept: shorten it", len(text), MaxReason)
	case strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("it holds control characters: write it on one line, without them")
	}
	return nil
}

// Files is a folder of decisions.
type Files struct {
	Dir string
	// Most is how many decisions the file has at most; then the older half goes to a second file, and what was there before is gone. 0 is 50,000.
	Most int
}

const (
	fileName  = "decisions.jsonl"
	olderName = "decisions.1.jsonl"
	lockName  = "lock"
)

// Read gives the decisions, the oldest first. A last line that is not whole was never acknowledged, and is none.
func (f Files) Read() ([]Decision, error) {
	out, _, err := f.read()
	return out, err
}

// read gives also how many bytes of the file are whole lines.
func (f Files) read() (out []Decision, whole int64, err error) {
	path := filepath.Join(f.Dir, fileName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	} else if err != nil {
		return nil, 0, fmt.Errorf("decisions: %w", err)
	}
	for n := 1; ; n++ {
		line, rest, ok := bytes.Cut(text, []byte("\n"))
		if !ok {
			return out, whole, nil
		}
		var d Decision
		if err := json.Unmarshal(line, &d); err != nil || !IsID(d.ID) {
			return nil, 0, fmt.Errorf("decisions: %s:%d: is no decision (%w); mend or remove the line", path, n, errors.Join(err, fmt.Errorf("id %q", d.ID)))
		}
		out, whole, text = append(out, d), whole+int64(len(line))+1, rest
	}
}

// Decide has one decision made, by somebody who sees all that were made before, and keeps it: on disk when it returns. Nobody else decides meanwhile;
// whoever waits for that does so until ctx ends.
func (f Files) Decide(ctx context.Context, decide func([]Decision) (Decision, error)) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("decisions: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(f.Dir, lockName), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("decisions: %w", err)
	}
	defer func() { _ = lock.Close() }() // which gives the lock back
	if err := alone(ctx, lock); err != nil {
		return fmt.Errorf("decisions: %s: %w", lock.Name(), err)
	}
	before, whole, err := f.read()
	if err != nil {
		return err
	}
	d, err := decide(before)
	if err != nil {
		return err
	}
	if err := f.append(before, whole, d); err != nil {
		return fmt.Errorf("decisions: nothing was kept: %w", err)
	}
	return nil
}

// lockAgain is how often a lock that somebody has is asked for: a wait in the kernel would not end with ctx.
const lockAgain = 20 * time.Millisecond

// alone waits for the lock.
func alone(ctx context.Context, lock *os.File) error {
	again := time.NewTicker(lockAgain)
	defer again.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("somebody else decides all the while: %w", err)
		}
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

func (f Files) append(before []Decision, whole int64, d Decision) error {
	if most := f.most(); len(before) >= most {
		if err := f.turn(before[len(before)-most/2:]); err != nil {
			return err
		}
		_, at, err := f.read()
		if err != nil {
			return err
		}
		whole = at
	}
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(f.Dir, fileName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(append(line, '\n'), whole)
	if err == nil {
		err = file.Truncate(whole + int64(len(line)) + 1) // of a line that was cut off nothing is left behind
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil { // what is there may be a part of it
		err = errors.Join(err, file.Truncate(whole))
	}
	return errors.Join(err, file.Close(), durable.SyncDir(f.Dir))
}

func (f Files) most() int {
	if f.Most > 0 {
		return f.Most
	}
	return 50_000
}

// turn leaves the newest decisions in the file; all of them are in the second one then.
func (f Files) turn(newest []Decision) error {
	var text []byte
	for _, d := range newest {
		line, err := json.Marshal(d)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	path, next := filepath.Join(f.Dir, fileName), filepath.Join(f.Dir, fileName+".next")
	if err := durable.Write(next, text); err != nil {
		return err
	}
	older := filepath.Join(f.Dir, olderName)
	if err := os.Remove(older); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(path, older); err != nil {
		return err
	}
	return errors.Join(os.Rename(next, path), durable.SyncDir(f.Dir))
}
