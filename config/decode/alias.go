package decode

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// checkAliases refuses a document whose aliases, written out, would make it larger than MaxDocument ("billion
// laughs") or endless. Documents without anchors, nearly all, cost one search for a byte.
func checkAliases(d document) *syntaxError {
	if bytes.IndexByte(d.text, '&') < 0 || bytes.IndexByte(d.text, '*') < 0 {
		return nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err != nil {
		return nil // the reader proper reports it, in its words
	}
	m := measure{sizes: map[*yaml.Node]int{}}
	if size := m.node(&root); size > MaxDocument {
		return &syntaxError{d.line, fmt.Sprintf("its aliases make the document larger than %d bytes", MaxDocument), "write the values out, or use fewer aliases"}
	}
	return nil
}

// measure computes what nodes take when aliases are written out, each anchor once. It stops counting above the limit.
type measure struct{ sizes map[*yaml.Node]int }

func (m measure) node(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if size, known := m.sizes[n]; known {
		return size
	}
	m.sizes[n] = MaxDocument + 1 // what an alias within its own anchor comes to
	size := len(n.Value) + 1
	for _, child := range n.Content {
		if size += m.node(child); size > MaxDocument {
			break
		}
	}
	m.sizes[n] = size
	return size
}
