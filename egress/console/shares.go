package console

import (
	"cmp"
	"fmt"
	"slices"
)

// inTurn is an order of SQL in which half of so many places are for the first of all, and the others for the first of each of what is told apart
// by a column, in turn: what one namespace does leaves room for what others did.
func inTurn(by, order string, most int) string {
	return fmt.Sprintf("CASE WHEN row_number() OVER (ORDER BY %[2]s) <= %[3]d THEN 0 ELSE row_number() OVER (PARTITION BY %[1]s ORDER BY %[2]s) END, %[2]s", by, order, most/2)
}

// shares keeps so many of a list, as inTurn does, in the list's order.
func shares[T any](list []T, most int, of func(*T) string) []T {
	if len(list) <= most {
		return list
	}
	type place struct{ turn, at int }
	places, taken := make([]place, len(list)), map[string]int{}
	for i := range list {
		name := of(&list[i])
		taken[name]++
		places[i] = place{taken[name], i}
		if i < most/2 {
			places[i].turn = 0
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.turn, b.turn) })
	places = places[:most]
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	out := make([]T, len(places))
	for i, p := range places {
		out[i] = list[p.at]
	}
	return out
}
