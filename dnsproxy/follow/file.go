package follow

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file must be quiet: writers write in pieces.
const settle = 50 * time.Millisecond

// File reads path and calls changed with its content, and again each time the content is another, until ctx ends. A
// file that is missing or cannot be read for now is waited for. It fails when its folder cannot be watched.
func File(ctx context.Context, path string, changed func(content []byte)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("watch the folder of %s: %w", path, err)
	}
	var last []byte
	read := func() {
		content, err := os.ReadFile(path)
		if err != nil || last != nil && bytes.Equal(content, last) {
			return
		}
		last = append([]byte{}, content...)
		changed(content)
	}
	read()
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-watcher.Events:
			if !ok {
				return nil
			}
			quiet.Reset(settle)
		case <-watcher.Errors: // the queue overflowed: read again
			quiet.Reset(settle)
		case <-quiet.C:
			read()
		}
	}
}
