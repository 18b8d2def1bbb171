package main

import "testing"

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]uint64{
		"": 0, "536870912": 512 << 20, "512Mi": 512 << 20, "512MiB": 512 << 20, "1Gi": 1 << 30, "1G": 1e9, "100000k": 1e8, "131072Ki": 128 << 20,
	} {
		if got, err := parseMemory(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"much", "-1", "1.5Gi", "32Mi", "99999999Ti", "Mi", "0"} {
		if got, err := parseMemory(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}
