package secrets

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The files of the state folder. They change together: the folder is exchanged as a whole.
const (
	keyFile   = "key.pem"
	chainFile = "cert-chain.pem"
	rootsFile = "root-cert.pem"
)

// errNoState says that no earlier run left a certificate.
var errNoState = errors.New("no certificate stored")

// save makes folder hold certificate and roots, in one step, so that a crash never leaves a key beside another
// key's certificate.
func save(folder string, c *certificate, roots []*x509.Certificate) error {
	parent, name := filepath.Split(filepath.Clean(folder))
	if err := os.MkdirAll(filepath.Clean(parent), 0o755); err != nil {
		return err
	}
	next, err := os.MkdirTemp(parent, temporaryPattern(name)) // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(next) // afterwards it is the old one
	for _, f := range []struct {
		name    string
		perm    fs.FileMode
		content []byte
	}{
		{keyFile, 0o600, c.key},
		{chainFile, 0o644, c.chain},
		{rootsFile, 0o644, encodeCertificates(roots)},
	} {
		if err := writeSynced(filepath.Join(next, f.name), f.perm, f.content); err != nil {
			return err
		}
	}
	if err := exchange(next, folder); err != nil {
		return fmt.Errorf("replace %s: %w", folder, err)
	}
	return nil
}

func temporaryPattern(name string) string { return "." + name + "-*" }

// sweep removes what a save that was killed left beside the folder: it may hold a key.
func sweep(folder string) error {
	parent, name := filepath.Split(filepath.Clean(folder))
	left, err := filepath.Glob(filepath.Join(parent, temporaryPattern(name)))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// exchange puts next in the place of folder and the old folder, if any, in the place of next.
func exchange(next, folder string) error {
	err := unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, folder, unix.RENAME_EXCHANGE)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Rename(next, folder)
	}
	return err
}

func writeSynced(path string, perm fs.FileMode, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// load reads what save wrote; errNoState when there is nothing.
func load(folder string) (*certificate, []*x509.Certificate, error) {
	key, err := os.ReadFile(filepath.Join(folder, keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errNoState
	} else if err != nil {
		return nil, nil, err
	}
	chain, err := os.ReadFile(filepath.Join(folder, chainFile))
	if err != nil {
		return nil, nil, err
	}
	rootText, err := os.ReadFile(filepath.Join(folder, rootsFile))
	if err != nil {
		return nil, nil, err
	}
	roots, err := parseCertificates(rootText)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(folder, rootsFile), err)
	}
	c, err := newCertificate(chain, key, time.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(folder, chainFile), err)
	}
	if info, err := os.Stat(filepath.Join(folder, chainFile)); err == nil {
		c.obtained = storedAt(info.ModTime(), c.leaf.NotBefore, time.Now())
	}
	return c, roots, nil
}

// storedAt is when a certificate was obtained, by its file's time as far as that can be true.
func storedAt(modified, notBefore, now time.Time) time.Time {
	switch {
	case modified.After(now):
		return now
	case modified.Before(notBefore):
		return notBefore
	default:
		return modified
	}
}
