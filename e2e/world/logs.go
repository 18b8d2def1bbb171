package world

import (
	"errors"
	"os"
	"path/filepath"
)

// SaveLogs moves the logs to a new directory, which Close leaves alone, and gives its path.
func (r *Run) SaveLogs() (string, error) {
	kept, err := os.MkdirTemp("", "sallyport-logs-")
	if err != nil {
		return "", err
	}
	logs, err := filepath.Glob(filepath.Join(r.Dir, "logs", "*"))
	if err != nil {
		return "", err
	}
	var errs []error
	for _, log := range logs {
		errs = append(errs, os.Rename(log, filepath.Join(kept, filepath.Base(log))))
	}
	return kept, errors.Join(errs...)
}
