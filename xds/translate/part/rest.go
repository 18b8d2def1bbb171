package part

import (
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/xds/resource"
)

// SealRest is the resource about names that are not in the table.
func SealRest(r name.Rest) *resource.Resource {
	n := name.Name{Host: name.Everything, Rest: &r}
	return resource.SealBytes(resource.Name, n.Host, n.Marshal())
}
