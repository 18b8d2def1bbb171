package program

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// hangUp settles what SIGHUP does, and gives it where it ends the command like SIGTERM: where the process has a terminal, which is gone then. A process that has none, as a service has
// none, is told by it to read its files again. There is nothing to read: what configures is read as it changes; so it says that, and goes on. Where SIGHUP is ignored, as below
// nohup, it stays so.
func hangUp(name string) []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	if tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0); err == nil {
		_ = tty.Close()
		return []os.Signal{syscall.SIGHUP}
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGHUP)
	go func() {
		for range told {
			fmt.Fprintf(os.Stderr, "%s: SIGHUP: nothing is read again, for configuration is read as it changes; SIGTERM ends this program\n", name)
		}
	}()
	return nil
}
