package wire

import "strings"

// Front is what a waypoint's agent is told, in StateTable, of a request or of a tunnel for a host outside.
type Front struct {
	In   string // the namespace whose registration of the host is meant
	Kind string // what a tunnel's bytes are taken for: KindTLS or KindTCP; "" of a request
}

// Tag is the value.
func (f Front) Tag() string { return WaypointAgain + "|" + f.In + "|" + f.Kind }

// ParseFront reads it; false of what is no waypoint's.
func ParseFront(tag string) (Front, bool) {
	parts := strings.Split(tag, "|")
	if len(parts) != 3 || parts[0] != WaypointAgain {
		return Front{}, false
	}
	return Front{In: parts[1], Kind: parts[2]}, true
}
