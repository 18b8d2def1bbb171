package datagram

import (
	"syscall"
	"testing"

	"golang.org/x/net/ipv4"
)

// BenchmarkMany is questions as they come under load, many at a time; ns-cpu is the processor's time of the whole process for each.
func BenchmarkMany(b *testing.B) {
	s, batch := listen(b, "udp4", "127.0.0.1:0")
	conn := ipv4.NewPacketConn(dial(b, s, "127.0.0.1"))
	ms, in := make([]ipv4.Message, Size), make([]ipv4.Message, Size)
	for i := range ms {
		ms[i].Buffers = [][]byte{[]byte("question")}
		in[i].Buffers = [][]byte{make([]byte, 100)}
	}
	cpu := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(0, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := cpu()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := conn.WriteBatch(ms, 0); err != nil || n != Size {
			b.Fatal(n, err)
		}
		for got := 0; got < Size; {
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
			got += n
		}
		for got := 0; got < Size; {
			n, err := conn.ReadBatch(in, 0)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N*Size), "ns-cpu/datagram")
}
