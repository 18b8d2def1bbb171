package ca

import (
	"bytes"
	"crypto/x509"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// write is one file to replace; without content, to remove.
type write struct {
	name    string
	content []byte
	perm    fs.FileMode
}

// plan orders the replacements that lead from one state of a folder to another, so that a crash after any of them
// leaves a CA that works, trusts what was trusted before and will be after, and can take the same step again.
func plan(old, f Files) ([]write, error) {
	further, err := furtherRoots(f)
	if err != nil {
		return nil, err
	}
	rootsFile := filepath.Join(rootsFolder, rootsOwn)
	var writes []write
	if len(f.NextKey) > 0 {
		writes = append(writes, write{NextKeyFile, f.NextKey, 0o600}, write{NextCertificateFile, f.NextCertificate, 0o644})
	}
	if len(old.Certificate) > 0 && !bytes.Equal(old.Key, f.Key) {
		writes = append(writes,
			write{rootsFile, slices.Concat(old.Roots, old.Certificate, f.Roots), 0o644},
			write{CertificateFile, slices.Concat(f.Certificate, old.Certificate), 0o644})
	}
	writes = append(writes,
		write{KeyFile, f.Key, 0o600},
		write{CertificateFile, f.Certificate, 0o644},
		write{rootsFile, further, 0o644},
		write{RotationFile, f.Rotation, 0o644})
	if len(f.NextKey) == 0 {
		writes = append(writes, write{NextCertificateFile, nil, 0}, write{NextKeyFile, nil, 0})
	}
	return writes, nil
}

// furtherRoots are the roots beside the one that signs.
func furtherRoots(f Files) ([]byte, error) {
	if len(f.Roots) == 0 {
		return nil, nil
	}
	roots, err := f.parse(RootsFile, f.Roots)
	if err != nil {
		return nil, err
	}
	own, err := f.parse(CertificateFile, f.Certificate)
	if err != nil {
		return nil, err
	}
	roots = slices.DeleteFunc(distinct(roots), func(c *x509.Certificate) bool { return slices.ContainsFunc(own, c.Equal) })
	return pemfile.EncodeCertificates(roots...), nil
}
