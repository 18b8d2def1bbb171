package node

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// What is known of pods' networks is in a folder that all agents of the node read: who holds the node writes there what the CNI plugin says, and
// the other one learns of it.

// podFile is one that was read.
type podFile struct {
	info os.FileInfo
	key  string
}

// readPods brings what is known of pods up to date with the folder, and says whether it changed.
func (p *Pods) readPods() (changed bool) {
	entries, err := os.ReadDir(p.path("pods"))
	if err != nil {
		p.cfg.Log.Warn("what is known of pods cannot be read", "err", err)
		return false
	}
	there := map[string]bool{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || filepath.Ext(e.Name()) != ".json" {
			continue // it is gone already, or not written yet
		}
		there[e.Name()] = true
		if was, ok := p.files[e.Name()]; ok && os.SameFile(was.info, info) { // a file is replaced, never written again
			continue
		}
		l, err := readLocal(p.path("pods", e.Name()))
		if err != nil {
			if !os.IsNotExist(err) {
				p.cfg.Log.Warn("what is known of a pod cannot be read", "file", e.Name(), "err", err)
			}
			continue
		}
		p.files[e.Name()] = podFile{info, l.Key()}
		p.mu.Lock()
		if p.local[l.Key()] != l {
			p.local[l.Key()] = l
			changed = true
		}
		p.mu.Unlock()
	}
	for name, f := range p.files {
		if there[name] {
			continue
		}
		delete(p.files, name)
		p.mu.Lock()
		if _, err := os.Lstat(p.path("pods", name)); os.IsNotExist(err) { // else it came again
			delete(p.local, f.key)
			changed = true
		}
		p.mu.Unlock()
	}
	return changed
}

func readLocal(file string) (l Local, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil {
		err = l.valid()
	}
	return l, err
}

// changes tells when something changes in the folder; nothing comes where that cannot be had, and it is looked at now and then anyway.
func (p *Pods) changes() (<-chan fsnotify.Event, func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	if err := watcher.Add(p.path("pods")); err != nil {
		p.cfg.Log.Warn("what another agent learns of pods is seen late", "err", err, "every", repair)
	}
	return watcher.Events, func() { _ = watcher.Close() }
}

// writeFile puts a file into its place as a whole, whoever else does so at the same time.
func writeFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), ".json")+".*.new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
