package main

import (
	"encoding/binary"
	"fmt"
	"net"
)

// authority answers every question at once with one address for an hour, and a TXT question with the number of other
// questions so far. It ends with an error only.
func authority(addr string) error {
	conn, err := listen(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	in, out, count := make([]byte, 4096), make([]byte, 0, 4096), 0
	for {
		n, client, err := conn.ReadFromUDPAddrPort(in)
		if err != nil {
			return err
		}
		end := questionEnd(in[:n])
		if end == 0 {
			continue
		}
		kind := binary.BigEndian.Uint16(in[end-4:])
		out = append(out[:0], in[0], in[1], 0x80|in[2]&1, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
		out = append(out, in[12:end]...)
		switch kind {
		case 1:
			count++
			out[7] = 1
			out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, byte(count))
		case 16:
			text := fmt.Sprint(count)
			out[7] = 1
			out = append(out, 0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0, 0, byte(len(text)+1), byte(len(text)))
			out = append(out, text...)
		}
		if _, err := conn.WriteToUDPAddrPort(out, client); err != nil {
			return err
		}
	}
}

func listen(addr string) (*net.UDPConn, error) {
	local, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return nil, err
	}
	return net.ListenUDP("udp4", local)
}

// questionEnd is where the only question of msg ends. 0: it has none.
func questionEnd(msg []byte) int {
	for at := 12; at < len(msg); at += 1 + int(msg[at]) {
		if msg[at] == 0 && at+5 <= len(msg) {
			return at + 5
		}
	}
	return 0
}
