package story

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Programs are the files that the story runs.
type Programs struct {
	Sallyport, Agent, Node, Envoy string
}

// FindPrograms looks into the directory that `make build envoy` fills. $SALLYPORT_BIN names another one.
func FindPrograms(root string) (Programs, error) {
	dir := os.Getenv("SALLYPORT_BIN")
	if dir == "" {
		dir = filepath.Join(root, "bin")
	}
	return ProgramsIn(dir)
}

// ProgramsIn looks into a directory, which may be filled with those of another release.
func ProgramsIn(dir string) (Programs, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Programs{}, err
	}
	p := Programs{
		Sallyport: filepath.Join(dir, "sallyport"),
		Agent:     filepath.Join(dir, "sallyport-agent"),
		Node:      filepath.Join(dir, "sallyport-node"),
		Envoy:     filepath.Join(dir, "envoy"),
	}
	var errs []error
	for _, file := range []string{p.Sallyport, p.Agent, p.Node, p.Envoy} {
		if _, err := os.Stat(file); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return Programs{}, fmt.Errorf("%w: run `make build envoy`", errors.Join(errs...))
	}
	return p, nil
}

// Root is the module's directory, found upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod in this directory or above: run this inside the checkout")
		}
		dir = up
	}
}

// CopyTo brings the programs to a place that every user can reach: a checkout in a home directory is closed to the
// proxy's user.
func (p Programs) CopyTo(dir string) (Programs, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return p, err
	}
	for _, file := range []*string{&p.Sallyport, &p.Agent, &p.Node, &p.Envoy} {
		target := filepath.Join(dir, filepath.Base(*file))
		if err := copyProgram(*file, target); err != nil {
			return p, err
		}
		*file = target
	}
	return p, nil
}

func copyProgram(from, to string) error {
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	in, err := os.Open(real)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
