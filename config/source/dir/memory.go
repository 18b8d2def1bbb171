package dir

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/source/wholefile"
)

// closes says of which kinds the last good versions are remembered: those without which something is open that was closed, and for which nothing stands in.
func closes(kind config.Kind) bool {
	switch kind {
	case config.KindEgressPolicy, config.KindAuthorizationPolicy, config.KindPeerAuthentication, config.KindRequestAuthentication, config.KindSidecar:
		return true
	default:
		return false
	}
}

// memory keeps the last good versions of what closes something in a folder, a file for each of the directory's that holds such objects, so that they are in use after a
// restart as they were before it, whatever was written meanwhile. A nil memory remembers nothing.
type memory struct {
	folder string
	log    *slog.Logger
	known  map[string]uint64 // by the name of a file of the folder: the digest of what it holds, 0 where it was not read
}

// newMemory is the memory of one directory, within a folder that others have theirs in.
func newMemory(folder, root string, log *slog.Logger) *memory {
	m := &memory{folder: filepath.Join(folder, fileOf(root)), log: log, known: map[string]uint64{}}
	entries, err := os.ReadDir(m.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the last good versions of objects that a restart would need cannot be read", "folder", m.folder, "error", err)
	}
	for _, e := range entries {
		m.known[e.Name()] = 0
	}
	return m
}

// fileOf is a file's name for a path, which has no path in it.
func fileOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:])
}

// recall gives what is remembered of a file of the directory, as far as it can still be used; name is the file's as findings show it.
func (m *memory) recall(name string) contents {
	if m == nil {
		return nil
	}
	at := fileOf(name)
	if _, is := m.known[at]; !is {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(m.folder, at))
	if err != nil {
		m.log.Warn("the last good versions of a file's objects cannot be read", "file", name, "error", err)
		return nil
	}
	held := map[config.Key]*config.Object{}
	for _, o := range decode.File(name+", as it last was good", text).Objects {
		if closes(o.Kind) && !admission.Refused(admission.Validate(o)) {
			held[o.Key] = &o
		}
	}
	c := contentsOf(held)
	m.known[at] = c.digest()
	return c
}

// note remembers what is in use of a file of the directory. What it says is on the disk when it returns, or the log says that it is not.
func (m *memory) note(name string, all contents) {
	if m == nil {
		return
	}
	var held contents
	for _, o := range all {
		if closes(o.Kind) && o.Refused == "" {
			held = append(held, o)
		}
	}
	at, digest := fileOf(name), held.digest()
	was, is := m.known[at]
	var err error
	switch {
	case len(held) == 0 && !is, is && was == digest:
		return
	case len(held) == 0:
		delete(m.known, at)
		err = os.Remove(filepath.Join(m.folder, at))
	default:
		var text []byte
		if text, err = written(held); err == nil {
			err = wholefile.Replace(filepath.Join(m.folder, at), text)
		}
		if m.known[at] = digest; err != nil {
			m.known[at] = 0 // it is tried again at the file's next change
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("the last good versions of a file's objects are not remembered: should it be wrong when the control plane starts again, nothing is closed by them", "file", name, "error", err)
	}
}

// forgetOthers removes what is remembered of files that are not there any more, once all that are there were read.
func (m *memory) forgetOthers(files map[string]*file, name func(path string) string) {
	if m == nil || len(files) == 0 { // perhaps the directory's contents are yet to come
		return
	}
	there := map[string]bool{}
	for path := range files {
		there[fileOf(name(path))] = true
	}
	for at := range m.known {
		if !there[at] {
			delete(m.known, at)
			_ = os.Remove(filepath.Join(m.folder, at))
		}
	}
}

// written are objects as decode reads them.
func written(objects contents) ([]byte, error) {
	var text []byte
	for _, o := range objects {
		one, err := decode.Manifest(o)
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, "---\n"...), one...), '\n')
	}
	return text, nil
}

// digest tells contents apart by their objects' hashes; it is 0 for none.
func (c contents) digest() uint64 {
	if len(c) == 0 {
		return 0
	}
	var b []byte
	for _, o := range c {
		b = binary.LittleEndian.AppendUint64(b, o.Hash)
	}
	return xxhash.Sum64(b) | 1
}
