package dnsproxy

// find returns the line for a lower-case name in wire format: the host itself, an alias, or the longest wildcard
// above it. nil: the table does not know the name.
func (n *names) find(wire []byte) *line {
	if l := n.exact(wire); l != nil {
		return l
	}
	// The star is written over the end of the label that it stands for: a label and its length are two bytes at least.
	var scratch [256]byte
	copy(scratch[:], wire)
	for at := 1 + int(wire[0]); at < len(wire); at += 1 + int(scratch[at]) {
		scratch[at-2], scratch[at-1] = 1, '*'
		if l := n.exact(scratch[at-2 : len(wire)]); l != nil {
			return l
		}
		if scratch[at] == 0 {
			break
		}
	}
	return nil
}

// exact looks for a host, then for an alias. A reverse name is an address, and no alias for who has it.
func (n *names) exact(wire []byte) *line {
	if l := n.host(wire); l != nil {
		return l
	}
	return n.alias(wire)
}

func isWildcard(wire string) bool { return len(wire) > 2 && wire[0] == 1 && wire[1] == '*' }
