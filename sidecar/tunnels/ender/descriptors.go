package ender

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// descriptors are which of a process's are sockets, as they were found last: of who ends many connections at once all are looked through once.
type descriptors struct {
	mu     sync.Mutex
	folder string
	of     map[string]int // what they lead to: "socket:[INODE]"
	forget *time.Timer
}

// rememberedFor is how long they are remembered without being asked for.
const rememberedFor = 10 * time.Second

// find is the number of the descriptor, in a process's folder of them, that leads to a socket. What is remembered is looked at again before it is believed.
func (d *descriptors) find(folder, socket string) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fd, there := d.of[socket]; there && d.folder == folder && leadsTo(folder, strconv.Itoa(fd)) == socket {
		return fd, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, cannotCopy(err)
	}
	d.folder, d.of = folder, map[string]int{}
	for _, e := range entries {
		if leads := leadsTo(folder, e.Name()); strings.HasPrefix(leads, "socket:") {
			if fd, err := strconv.Atoi(e.Name()); err == nil {
				d.of[leads] = fd
			}
		}
	}
	if d.forget == nil {
		d.forget = time.AfterFunc(rememberedFor, d.drop)
	} else {
		d.forget.Reset(rememberedFor)
	}
	if fd, there := d.of[socket]; there {
		return fd, nil
	}
	return 0, sockdiag.ErrGone
}

func (d *descriptors) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of = nil
}

// leadsTo is what a descriptor leads to; "" of one that is closed.
func leadsTo(folder, fd string) string {
	leads, _ := os.Readlink(filepath.Join(folder, fd)) // of none it is ""
	return leads
}
