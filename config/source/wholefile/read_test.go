package wholefile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/config/source/wholefile"
)

// TestRead: what has no end, or nobody who writes to it, is refused before it is read; a pipe that a shell made is read.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	file, fifo, link := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	err := errors.Join(os.WriteFile(file, []byte("0123456789"), 0o600), unix.Mkfifo(fifo, 0o600), os.Symlink("/dev/zero", link))
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if _, err := out.WriteString("by a pipe"); err != nil || out.Close() != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, problem string }{
		{file, "01234567", ""}, // one more than it may be
		{os.DevNull, "", ""},
		{fmt.Sprintf("/dev/fd/%d", in.Fd()), "by a pip", ""},
		{fifo, "", "it is a named pipe"},
		{"/dev/zero", "", "it is a device"},
		{link, "", "it is a device"},
		{dir, "", "it is a directory"},
		{filepath.Join(dir, "none"), "", "no such file"},
	} {
		text, err := wholefile.Read(c.name, 7)
		if string(text) != c.text || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %q, %v; want %q", c.name, text, err, c.problem)
		}
	}
}
