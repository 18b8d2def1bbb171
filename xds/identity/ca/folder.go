package ca

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

const (
	rootsFolder = "roots"     // users may put further roots there
	rootsOwn    = "roots.pem" // those that a rotation trusts
	lockFile    = "lock"      // held while files are replaced
)

// InFolder is the Store in a controller's data folder: DATA/ca. Several processes may use it at the same time.
func InFolder(dataDir string) Store { return folder(filepath.Join(dataDir, "ca")) }

type folder string

// readings bounds how often Load reads again because files changed under its hands.
const readings = 5

// Load implements Store. It takes no lock, so that it works where nothing may be written: what it read twice alike is
// of one moment.
func (d folder) Load(ctx context.Context) (Files, error) {
	last, err := d.read()
	for range readings {
		if err != nil {
			return Files{}, err
		}
		if err := ctx.Err(); err != nil {
			return Files{}, err
		}
		var again Files
		if again, err = d.read(); err == nil && again.Version == last.Version {
			return again, nil
		}
		last = again
	}
	return Files{}, errors.Join(fmt.Errorf("%s: its files change all the time", string(d)), err)
}

func (d folder) read() (Files, error) {
	f := Files{Origin: string(d)}
	hash := sha256.New()
	found := false
	for _, file := range d.files(&f) {
		content, err := os.ReadFile(filepath.Join(string(d), file.name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Files{}, err
		}
		found = found || err == nil
		*file.content = content
		fmt.Fprintf(hash, "%s %d\n%s", file.name, len(content), content)
	}
	if !found {
		return Files{}, fmt.Errorf("%s: %w", string(d), fs.ErrNotExist)
	}
	further, err := d.readRoots()
	if err != nil {
		return Files{}, err
	}
	hash.Write(further)
	f.Version = hex.EncodeToString(hash.Sum(nil))
	f.Roots = further
	if len(further) > 0 {
		f.Roots = slices.Concat(f.Certificate, further) // what signs is trusted without being named there
	}
	return f, nil
}

type file struct {
	name    string
	content *[]byte
	perm    fs.FileMode
}

// files are all but the roots.
func (d folder) files(f *Files) []file {
	return []file{
		{KeyFile, &f.Key, 0o600},
		{CertificateFile, &f.Certificate, 0o644},
		{NextKeyFile, &f.NextKey, 0o600},
		{NextCertificateFile, &f.NextCertificate, 0o644},
		{RotationFile, &f.Rotation, 0o644},
	}
}

// readRoots reads the further roots, in the order of their files' names.
func (d folder) readRoots() ([]byte, error) {
	paths, err := d.rootFiles()
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		roots, err := pemfile.ParseCertificates(text)
		if err != nil {
			return nil, fmt.Errorf("additional root %s: %w", path, err)
		}
		all = append(all, pemfile.EncodeCertificates(roots...)...)
	}
	return all, nil
}

// rootFiles lists them; a folder that cannot be read is not an empty one.
func (d folder) rootFiles() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(string(d), rootsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if name := e.Name(); filepath.Ext(name) == ".pem" && !strings.HasPrefix(name, ".") {
			paths = append(paths, filepath.Join(string(d), rootsFolder, name))
		}
	}
	return paths, nil
}

// Save implements Store.
func (d folder) Save(_ context.Context, f Files) (err error) {
	if err := d.makeFolders(); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(string(d), lockFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	old, err := d.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old.Version != f.Version {
		return fmt.Errorf("%s: %w", string(d), ErrConflict)
	}
	writes, err := plan(old, f)
	if err != nil {
		return err
	}
	for _, w := range writes {
		if err := replace(filepath.Join(string(d), w.name), w.content, w.perm); err != nil {
			return err
		}
	}
	return d.removeOtherRoots()
}

func (d folder) makeFolders() error {
	for _, path := range []string{string(d), filepath.Join(string(d), rootsFolder)} {
		err := os.MkdirAll(path, 0o700)
		if err == nil {
			err = pemfile.GiveToOwner(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeOtherRoots leaves one file of roots: the others are in it, or were dropped.
func (d folder) removeOtherRoots() error {
	paths, err := d.rootFiles()
	if err != nil {
		return err
	}
	for _, path := range paths {
		if filepath.Base(path) != rootsOwn {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// replace writes a file, or removes it when content is empty.
func replace(path string, content []byte, perm fs.FileMode) error {
	have, err := os.ReadFile(path)
	switch {
	case len(content) == 0 && errors.Is(err, fs.ErrNotExist):
		return nil
	case len(content) == 0:
		return os.Remove(path)
	case err == nil && bytes.Equal(have, content):
		return nil
	default:
		return pemfile.Replace(path, perm, content)
	}
}
