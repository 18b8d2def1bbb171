package datagram

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

func listen(t testing.TB, network, addr string) (*Socket, *Batch) {
	t.Helper()
	return listenBy(t, Size, network, addr)
}

func listenBy(t testing.TB, size int, network, addr string) (*Socket, *Batch) {
	t.Helper()
	s, err := Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b, err := NewBatch(s, size)
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

func dial(t testing.TB, s *Socket, host string) *net.UDPConn {
	t.Helper()
	conn, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr(host), s.Addr().Port()).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn.(*net.UDPConn)
}

// serve answers count questions with their own bytes, doubled.
func serve(t testing.TB, b *Batch, count int) {
	t.Helper()
	for count > 0 {
		n, err := b.Read()
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			q := b.Question(i)
			out := append(b.Buffer(i), q.Message...)
			b.Answer(i, append(out, q.Message...))
		}
		if err := b.Flush(); err != nil {
			t.Fatal(err)
		}
		count -= n
	}
}

// TestManyClients: answers of one batch go to whoever asked, from the address that was asked. A connected client takes
// nothing from any other address.
func TestManyClients(t *testing.T) {
	for _, c := range []struct {
		network, listen, ask string
		size                 int
	}{
		{"udp4", "127.0.0.1:0", "127.0.0.1", Size},
		{"udp4", "127.0.0.1:0", "127.0.0.1", Small},
		{"udp4", "0.0.0.0:0", "127.0.0.77", Size},
		{"udp", "[::1]:0", "::1", Size},
		{"udp", "[::1]:0", "::1", 1},
		{"udp", "[::]:0", "::1", Size},
		{"udp", "[::]:0", "127.0.0.78", Small},
	} {
		t.Run(fmt.Sprint(c.listen, " ", c.ask, " ", c.size), func(t *testing.T) {
			s, b := listenBy(t, c.size, c.network, c.listen)
			const count = 3 * Size
			var clients []*net.UDPConn
			for i := range count {
				conn := dial(t, s, c.ask)
				clients = append(clients, conn)
				fmt.Fprintf(conn, "%d.", i)
			}
			serve(t, b, count)
			in := make([]byte, 100)
			for i, conn := range clients {
				n, err := conn.Read(in)
				if want := fmt.Sprintf("%d.%d.", i, i); err != nil || string(in[:n]) != want {
					t.Fatalf("%q, %v, want %q", in[:n], err, want)
				}
			}
		})
	}
}

func TestLaterReply(t *testing.T) {
	s, b := listen(t, "udp4", "0.0.0.0:0")
	conn := dial(t, s, "127.0.0.79")
	fmt.Fprint(conn, "a")
	if n, err := b.Read(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	q := b.Question(0)
	if q.Client != conn.LocalAddr().(*net.UDPAddr).AddrPort() {
		t.Errorf("client %v, want %v", q.Client, conn.LocalAddr())
	}
	if err := s.Reply([]byte("later"), q.Control, q.Client); err != nil {
		t.Fatal(err)
	}
	in := make([]byte, 100)
	if n, err := conn.Read(in); err != nil || string(in[:n]) != "later" {
		t.Fatalf("%q, %v", in[:n], err)
	}
}

// TestOneOfManyFails: an answer that cannot be sent keeps the others from nothing.
func TestOneOfManyFails(t *testing.T) {
	s, b := listen(t, "udp4", "127.0.0.1:0")
	conn := dial(t, s, "127.0.0.1")
	for _, text := range []string{"a", "large", "b", "silent", "c"} {
		fmt.Fprint(conn, text)
	}
	for left := 5; left > 0; {
		n, err := b.Read()
		if err != nil {
			t.Fatal(err)
		}
		failing := false
		for i := range n {
			switch q := b.Question(i); string(q.Message) {
			case "silent":
				b.Answer(i, nil)
			case "large":
				failing = true
				b.Answer(i, make([]byte, 70_000))
			default:
				b.Answer(i, append(b.Buffer(i), q.Message...))
			}
		}
		if err := b.Flush(); (err != nil) != failing {
			t.Errorf("flush: %v", err)
		}
		left -= n
	}
	in := make([]byte, 100)
	for _, want := range []string{"a", "b", "c"} {
		if n, err := conn.Read(in); err != nil || string(in[:n]) != want {
			t.Fatalf("%q, %v, want %q", in[:n], err, want)
		}
	}
}

func TestDeadlineEndsReading(t *testing.T) {
	s, b := listen(t, "udp4", "127.0.0.1:0")
	ended := make(chan error, 1)
	go func() { _, err := b.Read(); ended <- err }()
	_ = s.SetReadDeadline(time.Unix(1, 0))
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// BenchmarkEcho is a question and its answer without any work in between.
func BenchmarkEcho(b *testing.B) {
	s, batch := listen(b, "udp4", "127.0.0.1:0")
	conn := dial(b, s, "127.0.0.1")
	_ = conn.SetDeadline(time.Time{})
	in, msg := make([]byte, 100), []byte("question")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(msg); err != nil {
			b.Fatal(err)
		}
		n, err := batch.Read()
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			batch.Answer(i, append(batch.Buffer(i), batch.Question(i).Message...))
		}
		if err := batch.Flush(); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Read(in); err != nil {
			b.Fatal(err)
		}
	}
}
