package ca

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// given is a folder with a CA that someone else made: Istio's `cacerts`, mounted. root-cert.pem may hold several roots;
// cert-chain.pem may be missing when a root itself signs.
// https://istio.io/latest/docs/tasks/security/cert-management/plugin-ca-cert/
type given string

// Load implements Store.
func (d given) Load(context.Context) (Files, error) {
	f := Files{Origin: string(d), Given: true, Version: "given"}
	for _, file := range []struct {
		name     string
		content  *[]byte
		optional bool
	}{
		{KeyFile, &f.Key, false},
		{CertificateFile, &f.Certificate, false},
		{RootsFile, &f.Roots, false},
		{ChainFile, &f.Chain, true},
	} {
		content, err := os.ReadFile(filepath.Join(string(d), file.name))
		if err != nil && (!file.optional || !errors.Is(err, fs.ErrNotExist)) {
			return f, err
		}
		*file.content = content
	}
	return f, nil
}

// Save implements Store.
func (d given) Save(context.Context, Files) error { return &GivenError{string(d)} }

// GivenError says that a CA belongs to somebody else, who alone may change it.
type GivenError struct{ Origin string }

func (e *GivenError) Error() string {
	return e.Origin + ": this CA was given; whoever made it rotates it: add the next root to " + RootsFile +
		", after half a certificate's lifetime replace " + KeyFile + ", " + CertificateFile + " and " + ChainFile +
		", and after a whole one take the old root out of " + RootsFile
}
