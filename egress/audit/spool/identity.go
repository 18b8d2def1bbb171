package spool

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/egress/audit/durable"
)

// epochFile is the content of the file "epoch".
type epochFile struct {
	Epoch uint64 `json:"epoch"`
	Boot  string `json:"boot"`
}

// hostBootID is proc(5)'s /proc/sys/kernel/random/boot_id; empty where there is none.
func hostBootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// loadEpoch returns the folder's epoch, and begins a new one (now) when there is none yet, when it cannot be read, or
// when the host was started anew since (see Limits.BootID). Of a new one it returns what is to be written (keepEpoch).
func loadEpoch(dir, boot string, now time.Time) (epoch uint64, unkept []byte, err error) {
	var old epochFile
	b, err := os.ReadFile(filepath.Join(dir, "epoch"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, nil, fmt.Errorf("spool: %w", err)
	}
	if err == nil && json.Unmarshal(b, &old) == nil && old.Epoch > 0 && boot != "" && old.Boot == boot {
		return old.Epoch, nil, nil
	}
	fresh := epochFile{Epoch: max(uint64(now.UnixNano()), old.Epoch+1), Boot: boot}
	b, err = json.Marshal(fresh)
	if err != nil {
		return 0, nil, fmt.Errorf("spool: %w", err)
	}
	return fresh.Epoch, append(b, '\n'), nil
}

// keepEpoch writes a new epoch. No record has it before: after the next start another one would begin, and nobody would know of this one.
func (s *Spool) keepEpoch() error {
	if s.unkept == nil {
		return nil
	}
	if err := durable.Replace(filepath.Join(s.dir, "epoch"), s.unkept); err != nil {
		return fmt.Errorf("spool: write the epoch: %w", err)
	}
	s.unkept = nil
	return nil
}

// lockDir takes the folder for this process; the lock goes with the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("spool: %s belongs to another process (stop it, or use another folder): %w", dir, err)
	}
	return f, nil
}

// numberSize is that of a file which holds a number: with its CRC-32C, little endian.
const numberSize = 12

// openNumber opens a file which holds a number; what is not readable counts as 0.
func openNumber(dir, name string) (*os.File, uint64, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("spool: %w", err)
	}
	b := make([]byte, numberSize)
	if _, err := io.ReadFull(f, b); err != nil || crc32.Checksum(b[:8], castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return f, 0, nil
	}
	return f, binary.LittleEndian.Uint64(b), nil
}

func writeNumber(f *os.File, n uint64) error {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, numberSize), n)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	_, err := f.WriteAt(b, 0)
	return err
}
