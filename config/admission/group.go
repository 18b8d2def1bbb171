package admission

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// ByOrigin groups findings by the place and the object that they are about: files in order of their names, in each
// by line. The findings of a group keep their order.
func ByOrigin(findings []Finding) [][]Finding {
	all := slices.Clone(findings)
	slices.SortStableFunc(all, func(a, b Finding) int {
		fileA, lineA := splitOrigin(a.Origin)
		fileB, lineB := splitOrigin(b.Origin)
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB), a.Key.Compare(b.Key))
	})
	var groups [][]Finding
	for i, f := range all {
		if i == 0 || f.Origin != all[i-1].Origin || f.Key != all[i-1].Key {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], f)
	}
	return groups
}

// splitOrigin splits "external.yaml:3". An origin without a line is before all lines.
func splitOrigin(origin string) (file string, line int) {
	i := strings.LastIndexByte(origin, ':')
	if i < 0 {
		return origin, 0
	}
	n, err := strconv.Atoi(origin[i+1:])
	if err != nil {
		return origin, 0
	}
	return origin[:i], n
}

// Where gives the place and the object of a finding: "external.yaml:3: ServiceEntry default/external".
func (f Finding) Where() string {
	switch {
	case f.Key.Kind == "":
		return f.Origin
	case f.Origin == "":
		return f.Key.String()
	default:
		return f.Origin + ": " + f.Key.String()
	}
}
