package translate

import routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

// nobody is a host that cannot be (RFC 6761 section 6.4).
const nobody = "nobody.invalid"

// firstRow is a row of a table that leads nowhere. A listener waits until its table's rows
// have come, and Envoy does not count an answer without any: one whose table is empty would open after 15 s only. Tables
// that list their hosts need none.
func firstRow(table string, hosts inline) []*Resource {
	if hosts != nil {
		return nil
	}
	name := vhostName(table, nobody)
	return []*Resource{seal(VirtualHost, name, &routev3.VirtualHost{Name: name, Domains: []string{nobody}})}
}
