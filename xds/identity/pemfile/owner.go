package pemfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// GiveToOwner makes path belong to whom its folder belongs to, when this process is root: what root's commands leave
// in a data folder has to be readable for the controller that runs as somebody else. A root that may not do so (a container
// without the capability) leaves it as it is.
func GiveToOwner(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
