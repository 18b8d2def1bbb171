package main

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
)

// leastMemory is what an agent and an Envoy that knows a few hosts need, in bytes.
const leastMemory = 64 << 20

// memoryUnits are those of Kubernetes' quantities that a limit of memory is written in, and Go's.
var memoryUnits = []struct {
	suffix string
	bytes  uint64
}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}}

// parseMemory reads a number of bytes, as in 536870912 or 512Mi; "" is 0.
func parseMemory(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	digits, unit := strings.TrimSuffix(text, "B"), uint64(1)
	for _, u := range memoryUnits {
		if rest, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	over, size := bits.Mul64(n, unit)
	switch {
	case err != nil || over != 0:
		return 0, errors.New("must be a whole number of bytes, as in 536870912 or 512Mi")
	case size < leastMemory:
		return 0, errors.New("is too little for a proxy: 64Mi at least")
	}
	return size, nil
}
