package mesh

import (
	"fmt"
	"slices"
)

// maxTCPPorts bounds a list that each proxy goes through for each connection.
const maxTCPPorts = 64

// tcpPorts reads the ports at which nothing is read of what workloads send: neither names nor requests.
func (b *block) tcpPorts(at string, v any) (out []uint32) {
	items, ok := v.([]any)
	if v != nil && !ok || len(items) > maxTCPPorts {
		b.add(at, v, "is no list of ports", fmt.Sprintf("write a list of numbers as in [2003, 2181], at most %d", maxTCPPorts))
		return nil
	}
	for i, item := range items {
		field := fmt.Sprintf("%s[%d]", at, i)
		switch n := numeric(item); {
		case n == 80 || n == 443:
			b.add(field, item, "is read always: what is asked for there is told apart by its name", "remove it")
		case item == nil || !(n >= 1 && n <= 65535 && n == float64(uint32(n))):
			b.add(field, item, "is no port number", "write a number from 1 to 65535")
		default:
			out = append(out, uint32(n))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
