package leaks

import (
	"testing"
	"time"
)

func TestMain(m *testing.M) { Verify(m) }

// A goroutine that ends late, by more than goleak waits for, is none that is left; one that does not end is.
func TestLeft(t *testing.T) {
	end := make(chan struct{})
	go func() { <-end }()
	if err := left(0); err == nil {
		t.Error("a goroutine is left, and nobody says so")
	}
	time.AfterFunc(time.Second, func() { close(end) })
	if err := left(patience); err != nil {
		t.Error(err)
	}
}
