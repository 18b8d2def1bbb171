package howto

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Clone copies a checkout's files into a folder, without what was built and without git's.
func Clone(root, folder string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(folder, name)
		switch {
		case slices.Contains([]string{".git", "bin", "dist"}, name):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(to, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, content, info.Mode().Perm())
	})
}
