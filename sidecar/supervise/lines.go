package supervise

import (
	"bytes"
	"io"
	"sync"
)

// maxLine bounds what is kept of a line that does not end, in bytes.
const maxLine = 64 << 10

// lines passes on whole lines only, so that they do not mix with the agent's own.
type lines struct {
	to  io.Writer
	mu  sync.Mutex
	buf []byte
}

// Write never fails: a log that cannot be written must not stop the child.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	end := bytes.LastIndexByte(l.buf, '\n') + 1
	if end == 0 && len(l.buf) > maxLine {
		l.buf = append(l.buf, '\n')
		end = len(l.buf)
	}
	if end > 0 {
		_, _ = l.to.Write(l.buf[:end])
		l.buf = append(l.buf[:0], l.buf[end:]...)
	}
	return len(p), nil
}

// rest passes on what is left when the child is gone.
func (l *lines) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) > 0 {
		_, _ = l.to.Write(append(l.buf, '\n'))
		l.buf = nil
	}
}
