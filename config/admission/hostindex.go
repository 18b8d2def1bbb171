package admission

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config/host"
)

// hostIndex finds the names that are below a suffix, without a look at the others.
type hostIndex []reversedHost

type reversedHost struct {
	labels string // from the last to the first, each with a dot behind it: "com.example.api."
	name   host.Name
}

func newHostIndex(names []host.Name) hostIndex {
	x := make(hostIndex, 0, len(names))
	for _, n := range names {
		x = append(x, reversedHost{reverse(string(n)), n})
	}
	slices.SortFunc(x, func(a, b reversedHost) int { return cmp.Compare(a.labels, b.labels) })
	return x
}

func reverse(name string) string {
	labels := strings.Split(name, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "."
}

// below gives the names that a wildcard stands for, but for the wildcard itself, in their order.
func (x hostIndex) below(wildcard host.Name) hostIndex {
	prefix := reverse(strings.TrimPrefix(string(wildcard), "*."))
	if wildcard == host.Any {
		prefix = ""
	}
	from, _ := slices.BinarySearchFunc(x, prefix, func(r reversedHost, p string) int { return cmp.Compare(r.labels, p) })
	to := from
	for to < len(x) && strings.HasPrefix(x[to].labels, prefix) {
		to++
	}
	return slices.DeleteFunc(slices.Clone(x[from:to]), func(r reversedHost) bool { return r.labels == prefix || r.name == wildcard })
}
