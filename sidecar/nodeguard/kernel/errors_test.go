package kernel

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

func asErrno(err error, want syscall.Errno) bool { return errors.Is(err, want) }

func asNet(err error, into *net.Error) bool { return errors.As(err, into) }

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
