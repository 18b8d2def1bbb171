package whole

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"
)

// Shape is who sends, and who ends first.
type Shape string

// The shapes.
const (
	Download      Shape = "download"        // the server sends and closes
	Fetch         Shape = "fetch"           // the server sends; the client closes when it has all
	Upload        Shape = "upload"          // the client sends, waits for a receipt, and closes
	Drop          Shape = "drop"            // the client sends and closes without a word
	Ask           Shape = "ask"             // the client shuts its side first; then the server sends and closes
	Post          Shape = "post"            // the client sends and shuts its side; then the server gives a receipt and closes
	Both          Shape = "both"            // both send at once; the server shuts its side when it has sent, however much is still to come, and the client does when all has come, too: what Envoy loses otherwise is said in docs/adr/0011-bytes-arrive-whole.md
	Refuse        Shape = "refuse"          // the server takes a little of what the client sends on and on, answers, and closes: its kernel resets what is left
	ResetByServer Shape = "reset-by-server" // the server sends some and resets
	ResetByClient Shape = "reset-by-client" // the client sends some and resets
)

// Exchange is what happens on one connection.
type Exchange struct {
	ID    string // which one, for the server's account
	Shape Shape
	Size  int64         // bytes, without the line that orders them
	Rest  time.Duration // who receives reads up to 32 KiB, then rests so long
}

// How long slow readers rest. One that Creeps takes less in a second than a kernel keeps for it.
const (
	Slowly = 2 * time.Millisecond
	Creeps = 50 * time.Millisecond
)

// String is the line that orders the exchange.
func (e Exchange) String() string {
	return fmt.Sprintf("%s %s %d %d", e.ID, e.Shape, e.Size, e.Rest.Nanoseconds())
}

func parse(line string) (e Exchange, err error) {
	_, err = fmt.Sscan(strings.TrimSpace(line), &e.ID, &e.Shape, &e.Size, (*int64)(&e.Rest))
	return e, err
}

// Conn is a connection as both ends need it.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// resetter is a connection that can be reset.
type resetter interface{ Reset() error }

const piece = 64 << 10

// pattern is what is sent, again and again. Its length is a prime, so that no power of two is a period of it.
var pattern = func() []byte {
	p := make([]byte, 65521)
	x := uint32(2463534242)
	for i := range p {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		p[i] = byte(x)
	}
	return append(p, p...)
}()

func at(position int64, n int) []byte {
	i := int(position % (int64(len(pattern)) / 2))
	return pattern[i : i+n]
}

// send writes size bytes and gives how many were taken.
func send(to io.Writer, size int64) (sent int64, err error) {
	for sent < size {
		n, err := to.Write(at(sent, int(min(size-sent, 32<<10))))
		sent += int64(n)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// receive reads up to limit bytes, or until the end where there is no limit (-1), and gives how many came. The end itself
// is no error.
func receive(from io.Reader, limit int64, rests time.Duration) (got int64, err error) {
	got, _, err = receiveAll(from, limit, rests)
	return got, err
}

// receiveAll says also how long after the last byte the end came.
func receiveAll(from io.Reader, limit int64, rests time.Duration) (got int64, late time.Duration, err error) {
	last := time.Now()
	buffer := make([]byte, piece)
	rested := make(<-chan time.Time)
	if rests > 0 {
		rest := time.NewTicker(rests)
		defer rest.Stop()
		rested = rest.C
	}
	for limit < 0 || got < limit {
		room := buffer[:32<<10]
		if limit >= 0 {
			room = room[:min(int64(len(room)), limit-got)]
		}
		n, err := from.Read(room)
		if !bytes.Equal(room[:n], at(got, n)) {
			return got, 0, fmt.Errorf("other bytes than were sent came after %d", got)
		}
		got += int64(n)
		if errors.Is(err, io.EOF) {
			return got, time.Since(last), nil
		}
		if err != nil {
			return got, 0, err
		}
		last = time.Now()
		if rests > 0 {
			<-rested
		}
	}
	return got, 0, nil
}

// receipt is the server's account of what came, as a line of fixed length.
func receipt(got int64) string { return fmt.Sprintf("received %020d\n", got) }

// Account is what one end sent or got, and how it was cut.
type Account struct {
	Bytes int64
	Err   error
	Late  time.Duration // how long after the last byte the end came, to a client who downloads
	Cut   error         // what a client who is refused heard when it wrote, and it had read a clean end before the whole answer
}

// Run does the client's part on an open connection, which it closes, and gives its account: of what it sent where it is
// the one who sends.
func Run(c Conn, e Exchange) Account {
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "%s\n", e); err != nil {
		return Account{Err: err}
	}
	return e.client(c, c)
}

func (e Exchange) client(c Conn, from io.Reader) (a Account) {
	switch e.Shape {
	case Download:
		a.Bytes, a.Late, a.Err = receiveAll(from, -1, e.Rest)
	case Fetch:
		a.Bytes, a.Err = receive(from, e.Size, e.Rest)
	case Ask:
		if a.Err = c.CloseWrite(); a.Err == nil {
			a.Bytes, a.Err = receive(from, -1, e.Rest)
		}
	case Upload, Post:
		if a.Bytes, a.Err = send(c, e.Size); a.Err == nil && e.Shape == Post {
			a.Err = c.CloseWrite()
		}
		if a.Err == nil {
			a.Err = expect(from, receipt(e.Size))
		}
	case Drop:
		a.Bytes, a.Err = send(c, e.Size)
	case Both:
		came := make(chan struct{})
		a = e.both(c, from, came, came)
	case Refuse:
		a = e.refused(c, from)
	case ResetByServer:
		if a.Bytes, a.Err = receive(from, e.Size, e.Rest); a.Err == nil {
			if _, err := fmt.Fprint(c, "."); err == nil { // all has come: now it may reset
				_, a.Err = receive(from, -1, 0)
			}
		}
	case ResetByClient:
		if a.Bytes, a.Err = send(c, e.Size); a.Err == nil {
			if a.Err = expect(from, receipt(e.Size)); a.Err == nil {
				a.Err = reset(c)
			}
		}
	}
	return a
}

// refused sends on and on, and receives. A kernel tells of a reset once: whether to who reads or to who writes, both know. A write that fails otherwise after
// a clean end says nothing of a reset.
func (e Exchange) refused(c Conn, from io.Reader) (a Account) {
	sent := make(chan error, 1)
	go func() {
		_, err := send(c, refusedFactor*max(e.Size, 1<<20))
		sent <- err
	}()
	a.Bytes, a.Err = receive(from, -1, e.Rest)
	if a.Err == nil && a.Bytes < e.Size {
		select {
		case err := <-sent:
			if errors.Is(err, syscall.ECONNRESET) {
				a.Err = err
			} else {
				a.Cut = err
			}
			return a
		case <-time.After(10 * time.Second): // it takes no end of it
		}
	}
	_ = c.Close()
	<-sent
	return a
}

// refusedFactor is how many times as much as its answer somebody sends who is refused.
const refusedFactor = 8

// both sends while it receives, and shuts its side when it may. It tells when all has come. What came is the account.
func (e Exchange) both(c Conn, from io.Reader, mayShut <-chan struct{}, came chan<- struct{}) (a Account) {
	sent := make(chan error, 1)
	go func() {
		_, err := send(c, e.Size)
		if err == nil {
			<-mayShut
			err = c.CloseWrite()
		}
		sent <- err
	}()
	a.Bytes, a.Err = receive(from, -1, e.Rest)
	close(came)
	a.Err = errors.Join(a.Err, <-sent)
	return a
}

func expect(from io.Reader, text string) error {
	got := make([]byte, len(text))
	n, err := io.ReadFull(from, got)
	if err == nil && string(got) != text {
		err = errors.New("another receipt")
	}
	if err != nil {
		return fmt.Errorf("waiting for a receipt, %q came: %w", got[:n], err)
	}
	return nil
}

func reset(c Conn) error {
	r, ok := c.(resetter)
	if !ok {
		return errors.New("this connection cannot be reset")
	}
	return r.Reset()
}

// serve does the server's part and gives its account.
func serve(c Conn) (e Exchange, a Account, err error) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReaderSize(c, piece)
	line, err := in.ReadString('\n')
	if err != nil {
		return e, a, err
	}
	if e, err = parse(line); err != nil {
		return e, a, err
	}
	return e, e.server(c, in), nil
}

func (e Exchange) server(c Conn, from io.Reader) (a Account) {
	switch e.Shape {
	case Download:
		a.Bytes, a.Err = send(c, e.Size)
	case Fetch:
		if a.Bytes, a.Err = send(c, e.Size); a.Err == nil {
			_, a.Err = receive(from, -1, 0)
		}
	case Ask:
		if _, a.Err = receive(from, -1, 0); a.Err == nil {
			a.Bytes, a.Err = send(c, e.Size)
		}
	case Upload, ResetByClient:
		if a.Bytes, a.Err = receive(from, e.Size, e.Rest); a.Err == nil {
			_, a.Err = io.WriteString(c, receipt(a.Bytes))
		}
		if a.Err == nil {
			_, a.Err = receive(from, -1, 0)
		}
	case Post:
		if a.Bytes, a.Err = receive(from, -1, e.Rest); a.Err == nil {
			_, a.Err = io.WriteString(c, receipt(a.Bytes))
		}
	case Drop:
		a.Bytes, a.Err = receive(from, -1, e.Rest)
	case Both:
		now := make(chan struct{})
		close(now)
		a = e.both(c, from, now, make(chan struct{}))
	case Refuse:
		if _, a.Err = receive(from, min(e.Size, piece), 0); a.Err == nil {
			a.Bytes, a.Err = send(c, e.Size)
		}
	case ResetByServer:
		if a.Bytes, a.Err = send(c, e.Size); a.Err == nil {
			if a.Err = expect(from, "."); a.Err == nil {
				a.Err = reset(c)
			}
		}
	}
	return a
}
