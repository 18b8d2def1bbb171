package decode

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Merge keys: "<<: *base" in a mapping has all keys of base's that the mapping does not write itself (https://yaml.org/type/merge.html). The library that kubectl reads YAML with takes
// what is written in order, so that a key counts that is behind "<<", and one before it does not; and, where it is strict, it takes either for a key that is there twice.

// merges says of a document whose keys are there twice whether that is by merge keys alone, and alike for whoever reads it; else what is to be mended.
func merges(d document) (fine bool, problem *syntaxError) {
	var root yaml.Node
	if !bytes.Contains(d.text, []byte("<<")) || yaml.Unmarshal(d.text, &root) != nil {
		return false, nil
	}
	m := merging{document: d}
	eachNode(&root, func(n *yaml.Node) {
		if n.Kind == yaml.MappingNode {
			m.mapping(n)
		}
	})
	return m.problem == nil, m.problem
}

type merging struct {
	document
	problem *syntaxError // the first one
}

func (m *merging) mapping(n *yaml.Node) {
	written, merged := map[string]bool{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if !isMerge(key) {
			if written[key.Value] {
				m.say(key, fmt.Sprintf("the key %q is there twice", key.Value), "keep one of the two")
			}
			written[key.Value] = true
			continue
		}
		for name := range keysOf(n.Content[i+1], 0) {
			switch {
			case written[name]:
				m.say(key, fmt.Sprintf(`"<<" merges the key %q, which is written before it: by YAML's rule what is written counts, and kubectl takes what is merged`, name), `write "<<" first, above the keys that it is overridden by`)
			case merged[name]:
				m.say(key, fmt.Sprintf(`two "<<" merge the key %q`, name), `merge both by one: "<<: [*first, *second]", of which the first counts`)
			}
			merged[name] = true
		}
	}
}

func (m *merging) say(at *yaml.Node, message, fix string) {
	if m.problem == nil {
		m.problem = &syntaxError{m.first + at.Line - 1, message, fix}
	}
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0
}

// deepest bounds how far merges within merges are followed; documents in which they come to much are refused before (checkAliases).
const deepest = 32

// keysOf are the keys of what is merged: of a mapping, an alias of one, or a list of these.
func keysOf(n *yaml.Node, depth int) map[string]bool {
	out := map[string]bool{}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case depth > deepest:
	case n.Kind == yaml.SequenceNode:
		for _, one := range n.Content {
			for name := range keysOf(one, depth+1) {
				out[name] = true
			}
		}
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !isMerge(n.Content[i]) {
				out[n.Content[i].Value] = true
				continue
			}
			for name := range keysOf(n.Content[i+1], depth+1) {
				out[name] = true
			}
		}
	}
	return out
}
