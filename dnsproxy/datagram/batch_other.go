//go:build !linux

package datagram

// Batch reads and answers on one socket, one datagram at a time. It is for one goroutine.
type Batch struct {
	socket   *Socket
	in       [MaxQuestion]byte
	question Question
	buffer   []byte
	answer   []byte
}

// NewBatch makes the batch that serves socket.
func NewBatch(socket *Socket, _ int) (*Batch, error) { return &Batch{socket: socket}, nil }

// Read waits for a question and returns 1. It fails when the socket is closed or its read deadline has passed.
func (b *Batch) Read() (int, error) {
	b.answer = nil
	n, client, err := b.socket.ReadFromUDPAddrPort(b.in[:])
	if err != nil {
		return 0, err
	}
	b.question = Question{Message: b.in[:n], Client: client}
	return 1, nil
}

// Question is the one that Read brought.
func (b *Batch) Question(int) Question { return b.question }

// Buffer is an empty buffer to append the answer to.
func (b *Batch) Buffer(int) []byte { return b.buffer[:0] }

// Answer keeps the answer for Flush. It must not be changed before.
func (b *Batch) Answer(_ int, answer []byte) {
	if cap(answer) <= MaxQuestion {
		b.buffer = answer
	}
	b.answer = answer
}

// Flush sends the answer.
func (b *Batch) Flush() error {
	if len(b.answer) == 0 {
		return nil
	}
	return b.socket.Reply(b.answer, nil, b.question.Client)
}
