package dir

import (
	"os"

	"golang.org/x/sys/unix"
)

// stampIn is stampOf for a file in an open directory; of what is no regular file it is none that one has. It leaves no garbage but the name.
func stampIn(dir *os.File, name string) (stamp, error) {
	var s unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &s, 0); err != nil {
		return stamp{}, err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFREG {
		return stamp{size: -1}, nil
	}
	return stamp{size: s.Size, modified: s.Mtim.Nano(), identity: identity{s.Dev, s.Ino}}, nil
}
