package world

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// captureLimit bounds what one capture keeps, in bytes. A capture that ran over says so instead of vouching for what
// it did not see.
const captureLimit = 16 << 20

// Capture reads the TCP payloads that cross one interface of a host, until Stop.
type Capture struct {
	fd   int
	stop chan struct{}
	done chan struct{}

	// Valid after done.
	wire Wire
	err  error
}

// Capture starts to read the wire of one interface of the host (an AF_PACKET socket, packet(7)).
func (h *Host) Capture(device string) (*Capture, error) {
	fd := -1
	err := h.Do(func() (err error) {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		// SOCK_DGRAM: without the link's header, so that every packet begins with its IP header.
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		timeout := unix.NsecToTimeval(int64(50 * time.Millisecond))
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: link.Index}))
	})
	if err != nil {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, fmt.Errorf("capturing on %s of %s: %w", device, h.Name, err)
	}
	c := &Capture{fd: fd, stop: make(chan struct{}), done: make(chan struct{})}
	go c.read()
	return c, nil
}

// Stop ends the capture and gives what crossed the wire until now. It fails when anything was lost, because then
// nothing can be said about what did not cross.
func (c *Capture) Stop() (Wire, error) {
	close(c.stop)
	<-c.done
	return c.wire, c.err
}

// read reads until Stop was called and no packet waits any more; the socket's receive time-out makes it look.
func (c *Capture) read() {
	defer close(c.done)
	size := 0
	buf := make([]byte, 1<<17)
	for {
		n, _, err := unix.Recvfrom(c.fd, buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			select {
			case <-c.stop:
				c.err = errors.Join(c.err, c.lost(), unix.Close(c.fd))
				return
			default:
			}
		case err != nil:
			c.err = errors.Join(c.err, err, unix.Close(c.fd))
			return
		default:
			p, ok := tcpPayload(buf[:n])
			if !ok {
				continue
			}
			if size += len(p.Data); size > captureLimit {
				c.err = fmt.Errorf("more than %d bytes crossed the wire", captureLimit)
				continue
			}
			p.Data = bytes.Clone(p.Data)
			c.wire = append(c.wire, p)
		}
	}
}

func (c *Capture) lost() error {
	stats, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return err
	}
	if stats.Drops > 0 {
		return fmt.Errorf("the kernel dropped %d captured packets", stats.Drops)
	}
	return nil
}

func networkOrder(v uint16) uint16 { return v<<8 | v>>8 }
