package machines

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/source/wholefile"
)

// Disk is the Store of a control plane without an API server: entries are changes of its configuration, and which machines there are is kept in a
// folder, a file each, so that one who starts again serves them until they have come back. What somebody wrote there who may write it is believed:
// beside it are the keys of the mesh's authority.
type Disk struct {
	Folder  string
	batches chan []config.Change

	mu   sync.Mutex            // one entry is written at a time
	sent map[config.Key]uint64 // the hashes of what the configuration has
}

// NewDisk makes one of a folder, which need not be there yet.
func NewDisk(folder string) *Disk {
	return &Disk{Folder: folder, batches: make(chan []config.Change), sent: map[config.Key]uint64{}}
}

// Batches is what changes.
func (d *Disk) Batches() <-chan []config.Change { return d.batches }

// Load gives what was kept. What cannot be read is none.
func (d *Disk) Load(log *slog.Logger) (out []Entry) {
	files, err := os.ReadDir(d.Folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("the machines of an earlier run are not known: they join again", "folder", d.Folder, "error", err)
	}
	for _, f := range files {
		path := filepath.Join(d.Folder, f.Name())
		text, err := os.ReadFile(path)
		var e Entry
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err == nil && d.file(e) != path {
			err = errors.New("it is called as no machine's is")
		}
		if err != nil {
			if strings.HasSuffix(f.Name(), suffix) {
				log.Warn("a machine of an earlier run is not known: it joins again", "file", path, "error", err)
			}
			_ = os.Remove(path)
			continue
		}
		out = append(out, e)
	}
	return out
}

const suffix = ".json"

// file is where an entry is kept: its name says nothing, and has no path in it.
func (d *Disk) file(e Entry) string {
	sum := sha256.Sum256([]byte(e.Proxy.Key().String()))
	return filepath.Join(d.Folder, hex.EncodeToString(sum[:])+suffix)
}

// Put implements Store.
func (d *Disk) Put(ctx context.Context, e Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := wholefile.Replace(d.file(e), text); err != nil {
		return err
	}
	if !e.Again && d.sent[e.Object.Key] == e.Object.Hash {
		return nil
	}
	return d.send(ctx, config.Change{Key: e.Object.Key, Object: e.Object})
}

// Remove implements Store.
func (d *Disk) Remove(ctx context.Context, e Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.Remove(d.file(e)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, there := d.sent[e.Proxy.Key()]; !there {
		return nil
	}
	if e.Others {
		delete(d.sent, e.Proxy.Key())
		return nil
	}
	return d.send(ctx, config.Change{Key: e.Proxy.Key()})
}

func (d *Disk) send(ctx context.Context, c config.Change) error {
	select {
	case d.batches <- []config.Change{c}:
		d.note(c)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Adopt gives the changes by which the configuration has entries that stand already. Call it before Run.
func (d *Disk) Adopt(entries []Entry) (changes []config.Change) {
	for _, e := range entries {
		c := config.Change{Key: e.Object.Key, Object: e.Object}
		d.note(c)
		changes = append(changes, c)
	}
	return changes
}

func (d *Disk) note(c config.Change) {
	if c.Object == nil {
		delete(d.sent, c.Key)
		return
	}
	d.sent[c.Key] = c.Object.Hash
}
