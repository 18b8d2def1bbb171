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
		d := distance(fold(word), fold(c))
		if d < least || d == 0 {
			best, least = c, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
}

// distance is Levenshtein's: how many letters must be put in, taken out or replaced. Very long words are far from
// everything.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
