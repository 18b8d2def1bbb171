package console

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
)

// spooled is a file without a name, to be read from its beginning: it goes with its process, however that ends. Text lies there packed: a tenth of its size, mostly.
type spooled struct {
	io.Reader
	file   *os.File
	length int64 // of what is read
}

var errLong = wrong{errors.New("these records are too long for a file that is made here: choose less time, or let sallyport audit export write it")}

// plain takes a file as it is. It is somebody else's to remove.
func (p *spooled) plain(file string) (err error) {
	if p.file, err = os.Open(file); err != nil {
		return err
	}
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	p.Reader, p.length = p.file, info.Size()
	return nil
}

// packed takes what is written.
func (p *spooled) packed(write func(io.Writer) error) (err error) {
	if p.file, err = os.CreateTemp("", "sallyport-"); err != nil {
		return err
	}
	if err := os.Remove(p.file.Name()); err != nil {
		return err
	}
	packer, err := gzip.NewWriterLevel(&bounded{p.file, mostPacked}, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := write(&counted{packer, &p.length}); err != nil {
		return err
	}
	if err := packer.Close(); err != nil {
		return err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	p.Reader, err = gzip.NewReader(p.file)
	return err
}

// Close gives its place on the disk back.
func (p *spooled) Close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// counted adds up how much is written.
type counted struct {
	io.Writer
	n *int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	*c.n += int64(n)
	return n, err
}

// bounded takes so much and no more.
type bounded struct {
	io.Writer
	room int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.room -= len(p); b.room < 0 {
		return 0, errLong
	}
	return b.Writer.Write(p)
}
