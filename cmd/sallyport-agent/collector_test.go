package main

import "testing"

func TestPercent(t *testing.T) {
	const room = 38 << 20
	for live, want := range map[uint64]int{0: 800, 1 << 20: 800, 19 << 20: 100, 23 << 20: 65, 38 << 20: 50, 1 << 40: 50} {
		if got := percent(live, room); got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
	}
}
