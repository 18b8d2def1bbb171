package main

import "testing"

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 7 << 20: 200, 14 << 20: 100, 23 << 20: 60, 1 << 30: 50, 1 << 60: 50} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
	}
}
