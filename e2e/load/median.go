package load

import (
	"reflect"
	"slices"
)

// Median takes the median of each figure over several runs of the same size.
func Median(runs []Figures) Figures {
	out := runs[0]
	out.Bytes = map[string]int64{}
	for kind := range runs[0].Bytes {
		var values []int64
		for _, r := range runs {
			values = append(values, r.Bytes[kind])
		}
		out.Bytes[kind] = middle(values)
	}
	fields := reflect.ValueOf(&out).Elem()
	for i := range fields.NumField() {
		if !fields.Field(i).CanInt() {
			continue
		}
		var values []int64
		for _, r := range runs {
			values = append(values, reflect.ValueOf(r).Field(i).Int())
		}
		fields.Field(i).SetInt(middle(values))
	}
	return out
}

// middle is the upper one of two.
func middle(values []int64) int64 {
	slices.Sort(values)
	return values[len(values)/2]
}
