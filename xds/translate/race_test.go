//go:build race

package translate_test

// raceDetected says whether the race detector is on, which makes everything several times slower.
const raceDetected = true
