package main

import (
	"fmt"

	"golang.org/x/net/ipv4"
)

// batch is how many datagrams the batched echo server takes at a time.
const batch = 32

// echo sends each datagram back, marked as an answer: the limit for any server that is written in Go. one reads and
// writes by net.UDPConn, batch by recvmmsg and sendmmsg. It ends with an error only.
func echo(how, addr string) error {
	conn, err := listen(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	switch how {
	case "one":
		in := make([]byte, 4096)
		for {
			n, client, err := conn.ReadFromUDPAddrPort(in)
			if err != nil {
				return err
			}
			in[2] |= 0x80
			if _, err := conn.WriteToUDPAddrPort(in[:n], client); err != nil {
				return err
			}
		}
	case "batch":
		return echoBatches(ipv4.NewPacketConn(conn))
	}
	return fmt.Errorf("echo %q: one or batch", how)
}

func echoBatches(conn *ipv4.PacketConn) error {
	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, 4096)}
	}
	for {
		n, err := conn.ReadBatch(messages, 0)
		if err != nil {
			return err
		}
		for i := range messages[:n] {
			m := &messages[i]
			m.Buffers[0] = m.Buffers[0][:m.N]
			m.Buffers[0][2] |= 0x80
		}
		for sent := 0; sent < n; {
			some, err := conn.WriteBatch(messages[sent:n], 0)
			if err != nil {
				return err
			}
			sent += some
		}
		for i := range messages[:n] {
			messages[i].Buffers[0] = messages[i].Buffers[0][:4096]
		}
	}
}
