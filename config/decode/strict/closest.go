package strict

import (
	"slices"
	"strings"
)

// Closest returns the candidate that word was probably meant to be: the same but for upper and lower case, '-' and
// '_', or with a few letters mistaken. It returns "" when nothing is close.
func Closest(word string, candidates []string) string {
	best, least := "", len(word)/3+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		d := Distance(fold(word), fold(c))
		if d < least || d == 0 {
			best, least = c, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
}

// Distance is how many letters must be put in, taken out, replaced or swapped with their neighbour (optimal string
// alignment). Very long words are far from everything.
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
