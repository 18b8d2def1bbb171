package ca

import (
	"bytes"
	"testing"
)

func TestDerive(t *testing.T) {
	derive := func(dir, purpose string) []byte {
		c, err := Open(Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Derive(purpose)
		if err != nil || len(out) != 32 {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		return out
	}
	one, two := t.TempDir(), t.TempDir()
	first := derive(one, "a")
	if !bytes.Equal(first, derive(one, "a")) {
		t.Error("two replicas derive different bytes of one key")
	}
	if bytes.Equal(first, derive(one, "b")) || bytes.Equal(first, derive(two, "a")) {
		t.Error("another purpose, or another key, makes the same bytes")
	}
}
