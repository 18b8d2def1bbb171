package main

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// A WebSocket (RFC 6455) as far as one short message each way needs it.

const (
	socketMagic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	textFrame   = 0x81 // the whole message in one frame
	maskBit     = 0x80
	shortest    = 125 // bytes of a message whose length fits the second byte
)

func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + socketMagic)) // #nosec G401 -- the protocol's
	return base64.StdEncoding.EncodeToString(sum[:])
}

// acceptSocket sends each message back.
func acceptSocket(w http.ResponseWriter, r *http.Request) {
	hijacker, ok := w.(http.Hijacker)
	if !ok || r.Header.Get("Upgrade") != "websocket" {
		http.Error(w, "this is a WebSocket", http.StatusUpgradeRequired)
		return
	}
	c, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptOf(r.Header.Get("Sec-WebSocket-Key")))
	for err == nil {
		var message []byte
		if message, err = readFrame(buffered.Reader); err == nil {
			_, err = c.Write(append([]byte{textFrame, byte(len(message))}, message...))
		}
	}
}

// webSocket opens one at addr (host:port), with host as its Host if given, sends the message send and receives one. timeout
// is 10s if empty.
func webSocket(r *http.Request) (exchanged, error) {
	return exchange(r, "tcp", func(c net.Conn, send string) (string, error) {
		host := r.URL.Query().Get("host")
		if host == "" {
			host = r.URL.Query().Get("addr")
		}
		if len(send) > shortest {
			return "", errors.New("the message is too long")
		}
		const key = "dGhlIHNhbXBsZSBub25jZQ=="
		if _, err := fmt.Fprintf(c, "GET /socket HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n", host, key); err != nil {
			return "", err
		}
		in := bufio.NewReader(c)
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			return "", err
		}
		_ = response.Body.Close() // an upgrade has none; the connection is ours
		if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Accept") != acceptOf(key) {
			return "", fmt.Errorf("the upgrade was answered %s", response.Status)
		}
		frame := []byte{textFrame, maskBit | byte(len(send)), 0, 0, 0, 0} // a mask of zeros changes nothing
		if _, err := c.Write(append(frame, send...)); err != nil {
			return "", err
		}
		message, err := readFrame(in)
		return string(message), err
	})
}

func readFrame(in *bufio.Reader) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	length := int(head[1] &^ maskBit)
	if length > shortest {
		return nil, errors.New("the message is too long")
	}
	var mask [4]byte
	if head[1]&maskBit != 0 {
		if _, err := io.ReadFull(in, mask[:]); err != nil {
			return nil, err
		}
	}
	message := make([]byte, length)
	_, err := io.ReadFull(in, message)
	for i := range message {
		message[i] ^= mask[i%4]
	}
	return message, err
}
