package node

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// What is known of pods' networks is in a folder that all agents of the node read: who holds the node writes there what the CNI plugin says, and
// the other one learns of it.

// podFile is one that was read.
type podFile struct {
	info os.FileInfo
	key  string
}

// folderRests is how long a folder must not have changed, by its time, until it is taken for what it was when that time is the same: of two changes at one moment the second leaves no trace there.
const folderRests = time.Second

// readPods brings what is known of pods up to date with the folder, and says whether it changed. Nothing in a folder changes without its time, since files are replaced, and never written again.
func (p *Pods) readPods() (changed bool) {
	info, err := os.Stat(p.path("pods"))
	if err == nil && info.ModTime().Equal(p.filesAt) {
		return false
	}
	p.filesAt = time.Time{}
	defer func() {
		if info != nil && time.Since(info.ModTime()) > folderRests {
			p.filesAt = info.ModTime()
		}
	}()
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
		changed = p.readPod(e.Name(), info) || changed
	}
	for name := range p.files {
		if !there[name] {
			changed = p.forgetPod(name) || changed
		}
	}
	if len(p.files) < len(there) { // one could not be read, and is tried again
		info = nil
	}
	return changed
}

// readChanged does it for what changed in the folder, as far as that was told by now.
func (p *Pods) readChanged(e fsnotify.Event, more <-chan fsnotify.Event) (changed bool) {
	names := map[string]bool{}
	for another := true; another; {
		names[filepath.Base(e.Name)] = true
		select {
		case e, another = <-more:
		default:
			another = false
		}
	}
	for name := range names {
		if filepath.Ext(name) != ".json" {
			continue // not written yet
		}
		info, err := os.Lstat(p.path("pods", name))
		switch {
		case err == nil:
			changed = p.readPod(name, info) || changed
		case os.IsNotExist(err):
			changed = p.forgetPod(name) || changed
		}
	}
	return changed
}

// readPod reads a file, if it is another one than was read before, and says whether it says something new.
func (p *Pods) readPod(name string, info os.FileInfo) (changed bool) {
	if was, ok := p.files[name]; ok && os.SameFile(was.info, info) { // a file is replaced, never written again
		return false
	}
	l, err := readLocal(p.path("pods", name))
	if err != nil {
		if !os.IsNotExist(err) {
			p.cfg.Log.Warn("what is known of a pod cannot be read", "file", name, "err", err)
		}
		return false
	}
	p.files[name] = podFile{info, l.Key()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.local[l.Key()] == l {
		return false
	}
	p.local[l.Key()] = l
	p.looks.add(l.Key())
	return true
}

// forgetPod forgets a pod whose file is gone, and says whether it still is.
func (p *Pods) forgetPod(name string) bool {
	f, known := p.files[name]
	if !known {
		return false
	}
	delete(p.files, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := os.Lstat(p.path("pods", name)); !os.IsNotExist(err) { // it came again
		return false
	}
	delete(p.local, f.key)
	return true
}

func readLocal(file string) (l Local, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil {
		err = l.Valid()
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
