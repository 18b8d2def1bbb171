package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/egress/audit/durable"
)

// A file is compacted when it has this much dead weight, and at least as much as it has live.
const compactAbove = 256 << 10 // bytes

// flush writes what is pending and syncs the file. On an error all of it stays pending, in memory. Only the store's
// writer calls it, so nothing but index and pending can change meanwhile.
func (t *Table) flush(owner string) error {
	t.mu.Lock()
	batch := make([]change, 0, len(t.pending))
	for name, r := range t.pending {
		batch = append(batch, change{name: name, resource: r})
	}
	file, size, known := t.file, t.size, t.known
	t.mu.Unlock()
	if len(batch) == 0 && (file != nil || !known) {
		return nil
	}
	slices.SortFunc(batch, func(a, b change) int { return compare(a.name, b.name) })

	if file == nil {
		var err error
		if file, size, err = create(t.path, header(owner, t.url)); err != nil {
			return err
		}
	}
	out := &appender{file: file, off: size}
	for i := range batch {
		if err := out.change(&batch[i]); err != nil {
			return errors.Join(err, t.keep(file, size))
		}
	}
	if err := errors.Join(out.flush(), file.Sync()); err != nil {
		return errors.Join(err, t.keep(file, size))
	}
	t.landed(file, out.off, batch)
	return t.compact(owner)
}

// keep notes the file after a failed write, cut back to what was good.
func (t *Table) keep(file *os.File, size int64) error {
	t.mu.Lock()
	t.file, t.size = file, size
	t.mu.Unlock()
	return file.Truncate(size)
}

// landed points the index at what was written, except where it was overwritten meanwhile.
func (t *Table) landed(file *os.File, size int64, batch []change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.file, t.size = file, size
	for _, c := range batch {
		if now, ok := t.pending[c.name]; !ok || now != c.resource {
			continue
		}
		delete(t.pending, c.name)
		if c.resource != nil {
			t.index[c.name] = place{version: c.resource.GetVersion(), off: c.off, length: c.length}
			t.live += frameHead + 1 + int64(c.length)
		}
	}
	if len(t.pending) == 0 { // a map never shrinks
		t.pending = map[string]*discoveryv3.Resource{}
	}
}

// compact rewrites the file with the live records only, if that is worth it. Every name is on disk or pending.
func (t *Table) compact(owner string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	head := int64(frameHead + 1 + len(header(owner, t.url)))
	if dead := t.size - t.live; (dead < compactAbove || dead < t.live) && !(t.scrub && dead > head) {
		return nil
	}
	temp := t.path + ".new"
	file, size, err := create(temp, header(owner, t.url))
	if err != nil {
		return err
	}
	out := &appender{file: file, off: size}
	moved := make(map[string]place, len(t.index))
	for name, at := range t.index {
		if at.off < 0 {
			moved[name] = at
			continue
		}
		body, err := t.read(at)
		if err == nil {
			moved[name] = place{version: at.version, off: out.off, length: at.length}
			err = out.frame(opPut, body)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("compacting %s: %q: %w", t.path, name, err), file.Close(), os.Remove(temp))
		}
	}
	if err := errors.Join(out.flush(), file.Sync()); err != nil {
		return errors.Join(err, file.Close(), os.Remove(temp))
	}
	if err := os.Rename(temp, t.path); err != nil {
		return errors.Join(err, file.Close(), os.Remove(temp))
	}
	err = errors.Join(t.file.Close(), durable.SyncDir(filepath.Dir(t.path)))
	t.file, t.index, t.size, t.live = file, moved, out.off, out.off-size
	return err
}

// change is one pending put or, without a resource, removal.
type change struct {
	name     string
	resource *discoveryv3.Resource
	off      int64
	length   int
}

// appender collects frames and writes them in large pieces.
type appender struct {
	file *os.File
	off  int64 // of the next frame
	buf  []byte
}

func (a *appender) change(c *change) error {
	if c.resource == nil {
		return a.frame(opRemove, []byte(c.name))
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.resource)
	if err != nil {
		return fmt.Errorf("resource %q: %w", c.name, err)
	}
	c.off, c.length = a.off, len(body)
	return a.frame(opPut, body)
}

func (a *appender) frame(op byte, body []byte) error {
	a.buf = frame(a.buf, op, body)
	a.off += frameHead + 1 + int64(len(body))
	if len(a.buf) < 1<<18 {
		return nil
	}
	return a.flush()
}

// flush writes at the place that follows from off, so that a failed attempt is simply written over.
func (a *appender) flush() error {
	_, err := a.file.WriteAt(a.buf, a.off-int64(len(a.buf)))
	a.buf = a.buf[:0]
	return err
}

// create makes a file with its header and makes the name durable.
func create(path string, head []byte) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, 0, err
	}
	first := frame(nil, opHead, head)
	if _, err := file.Write(first); err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, int64(len(first)), durable.SyncDir(filepath.Dir(path))
}
