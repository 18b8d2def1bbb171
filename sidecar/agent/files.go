package agent

import (
	"bytes"
	"errors"
	"os"

	"github.com/sallyport/sallyport/egress/audit/durable"
)

// replaceFile writes a file as a whole or not at all.
func replaceFile(path string, content []byte) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// provide gives a file its content before anybody reads it. One that has it is left as it is, and on a full disk what is there is written over, which takes no room: an agent that starts
// again needs none.
func provide(path string, content []byte) error {
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, content) {
		return nil
	}
	full := durable.Replace(path, content)
	if !durable.Full(full) {
		return full
	}
	if err := overwrite(path, content); err != nil {
		return errors.Join(full, err)
	}
	return nil
}

func overwrite(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Truncate(int64(len(content)))
	}
	return errors.Join(err, f.Sync(), f.Close())
}
