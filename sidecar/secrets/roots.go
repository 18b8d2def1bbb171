package secrets

import (
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync"
)

// rootFile is the --ca-root file.
type rootFile struct {
	path  string
	mutex sync.Mutex
	last  string // error, so that it is reported once
}

func (f *rootFile) read() ([]*x509.Certificate, error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("roots of the controller: %w", err)
	}
	roots, err := parseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("roots of the controller: %s: %w", f.path, err)
	}
	return roots, nil
}

// news reports whether err is another one than the last time; nil is no news.
func (f *rootFile) news(err error) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	other := text != f.last
	f.last = text
	return other && err != nil
}

// readRoots reads the file, or takes what another one has read.
func (w *Workload) readRoots() ([]*x509.Certificate, error) {
	if w.beside == nil {
		return w.given.read()
	}
	m := w.beside.board.read()
	return m.given, nil
}

// known gives roots as who is beside has them, where that one has the same: a node's pods need not have a copy each.
func (w *Workload) known(roots []*x509.Certificate) []*x509.Certificate {
	if w.beside == nil {
		return roots
	}
	m := w.beside.board.read()
	for _, have := range [][]*x509.Certificate{m.issued, m.given} {
		if slices.EqualFunc(roots, have, (*x509.Certificate).Equal) {
			return have
		}
	}
	return roots
}

// rereadRoots takes over a changed --ca-root file; one that cannot be read changes nothing.
func (w *Workload) rereadRoots() {
	given, err := w.readRoots()
	if w.given.news(err) {
		w.options.Log.Warn("going on with the roots as they were", "error", err)
	}
	if err != nil {
		return
	}
	if w.publish(func(m material) material { m.given = given; return m }) {
		w.options.Log.Info("roots of the controller changed", "roots", len(given))
	}
}
