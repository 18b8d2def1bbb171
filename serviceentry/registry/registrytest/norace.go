//go:build !race

package registrytest

// Raced says whether the race detector is on, which makes everything several times slower.
const Raced = false
