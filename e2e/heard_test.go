package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// heardTalks is what servers outside have heard of who talks, by what that calls itself.
type heardTalks struct {
	mu    sync.Mutex
	talks map[string]*hearing
}

// hearing is a connection as its server sees it.
type hearing struct {
	lines int
	end   error // how it ended; nil while it is open
}

// echo says again what comes, line by line, until its end.
func (h *heardTalks) echo(c net.Conn) {
	in, mine := bufio.NewReader(c), (*hearing)(nil)
	for {
		line, err := in.ReadString('\n')
		if err == nil {
			_, err = io.WriteString(c, line)
		}
		h.mu.Lock()
		if name, _, is := strings.Cut(line, ": "); is && mine == nil {
			if h.talks == nil {
				h.talks = map[string]*hearing{}
			}
			mine = &hearing{}
			h.talks[name] = mine
		}
		if mine != nil {
			mine.lines++
			mine.end = err
		}
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// over waits until the servers have seen the end of these, which may look like no good one where the proxy that ended them is the one that they see.
func (h *heardTalks) over(t *testing.T, o *openEnds, gone []*talk, seen bool) {
	t.Helper()
	for _, k := range gone {
		if err := world.Within(o.ctx, time.Minute, func() error {
			h.mu.Lock()
			defer h.mu.Unlock()
			switch was := h.talks[k.what]; {
			case was == nil:
				return errors.New("its server has heard nothing of it")
			case was.end == nil:
				return fmt.Errorf("its server has heard %d lines, and no end", was.lines)
			case seen && !errors.Is(was.end, syscall.ECONNRESET):
				t.Errorf("%s: its server sees %v, want a reset", k.what, was.end)
				return nil
			default:
				t.Logf("%s: its server heard %d lines, and %v", k.what, was.lines, was.end)
				return nil
			}
		}); err != nil {
			t.Errorf("%s: %v", k.what, err)
		}
	}
}
