// Package wholefile writes files whole or not at all, in folders that are the writer's alone, and reads files that somebody names whole, if they have an end.
package wholefile

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes a file, and its folder where there is none. After a crash it holds what it did before, or the text.
func Replace(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(filepath.Dir(file), "new-*")
	if err != nil {
		return err
	}
	_, err = t.Write(text)
	if err = errors.Join(err, t.Sync(), t.Close()); err == nil {
		err = os.Rename(t.Name(), file)
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
	return err
}
