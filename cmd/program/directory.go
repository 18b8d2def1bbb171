package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Directory says why what a flag names is no directory that this program can use; nil where it is one.
func Directory(flag, name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Misuse(fmt.Errorf("%s %q: there is no such directory", flag, name))
	case err != nil:
		return Misuse(fmt.Errorf("%s: %w", flag, err))
	case !info.IsDir():
		return Misuse(fmt.Errorf("%s %q: it is a file; name the directory that it is in", flag, name))
	}
	return nil
}
