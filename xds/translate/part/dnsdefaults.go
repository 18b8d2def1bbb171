package part

import (
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/xds/resource"
)

// SealDNSDefaults is the resource about names that are not in the table.
func SealDNSDefaults(r name.Defaults) *resource.Resource {
	n := name.Name{Host: name.Everything, Defaults: &r}
	return resource.SealBytes(resource.Name, n.Host, n.Marshal())
}
