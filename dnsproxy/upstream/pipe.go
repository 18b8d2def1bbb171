package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxWaiting is how many questions one connection has under way.
	maxWaiting = 64
	// pipeIdle is how long a connection may be silent before it is closed.
	pipeIdle = 10 * time.Second
)

// errBroken is a connection that has ended before the answer came.
var errBroken = errors.New("the connection ended")

// pipe is one connection on which many questions are asked at a time; answers come in any order (RFC 7766 section 7).
type pipe struct {
	conn    net.Conn
	writing sync.Mutex

	mu      sync.Mutex
	waiting map[uint16]chan []byte
	next    uint16
	reads   uint64 // messages that have come
	tired   bool   // somebody has waited in vain while nothing came: no more questions
	broken  error
}

func newPipe(conn net.Conn) *pipe {
	return &pipe{conn: conn, waiting: map[uint16]chan []byte{}}
}

func (p *pipe) hasRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken == nil && !p.tired && len(p.waiting) < maxWaiting
}

// ask sends wire with an id of its own and waits for the message with that id.
func (p *pipe) ask(ctx context.Context, wire []byte) (msg []byte, err error) {
	id, answer, reads, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer func() { p.leave(id, answer, reads, errors.Is(err, context.DeadlineExceeded)) }()
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(wire)), uint16(len(wire)))
	framed = append(framed, wire...)
	binary.BigEndian.PutUint16(framed[2:], id)
	if err := p.write(ctx, framed); err != nil {
		p.conn.Close()
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	select {
	case msg, ok := <-answer:
		if !ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", errBroken, p.broken)
		}
		return msg, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enter takes a free id. One connection's ids need not be secret, only unlike.
func (p *pipe) enter() (id uint16, answer chan []byte, reads uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return 0, nil, 0, fmt.Errorf("%w: %w", errBroken, p.broken)
	}
	for p.waiting[p.next] != nil {
		p.next++
	}
	id, answer = p.next, make(chan []byte, 1)
	p.next++
	p.waiting[id] = answer
	return id, answer, p.reads, nil
}

// leave ends the wait. late is that no answer came: if no other one came either since reads, the connection takes no
// more questions, and ends with the last one.
func (p *pipe) leave(id uint16, answer chan []byte, reads uint64, late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[id] == answer {
		delete(p.waiting, id)
	}
	if p.tired = p.tired || late && reads == p.reads; p.tired && len(p.waiting) == 0 {
		p.conn.Close()
	}
}

func (p *pipe) write(ctx context.Context, framed []byte) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(pipeIdle)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = p.conn.SetWriteDeadline(deadline)
	_, err := p.conn.Write(framed)
	return err
}

// read hands out the answers until the connection ends. What nobody waits for is dropped.
func (p *pipe) read() {
	var err error
	for err == nil {
		err = p.readOne()
	}
	p.conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = err
	for id, answer := range p.waiting {
		close(answer)
		delete(p.waiting, id)
	}
}

func (p *pipe) readOne() error {
	_ = p.conn.SetReadDeadline(time.Now().Add(pipeIdle))
	var size [2]byte
	if _, err := io.ReadFull(p.conn, size[:]); err != nil {
		return err
	}
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(p.conn, msg); err != nil {
		return err
	}
	if len(msg) < 12 {
		return fmt.Errorf("%w: a message of %d bytes", ErrMismatch, len(msg))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	id := binary.BigEndian.Uint16(msg)
	if answer := p.waiting[id]; answer != nil {
		answer <- msg
		delete(p.waiting, id)
	}
	return nil
}
