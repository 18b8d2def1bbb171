package decode

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// meaningfulTags are those that say something to readers of YAML (https://yaml.org/type/).
var meaningfulTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!binary", "!!map", "!!seq", "!!merge"}

// warnOfTags says of each tag of a document which nobody knows that it is left out: readers take what it stands before as it is written.
func (r *reader) warnOfTags(d document) {
	var root yaml.Node
	if bytes.IndexByte(d.text, '!') < 0 || yaml.Unmarshal(d.text, &root) != nil {
		return
	}
	eachNode(&root, func(n *yaml.Node) {
		if t := n.ShortTag(); n.Style&yaml.TaggedStyle != 0 && !slices.Contains(meaningfulTags, t) {
			r.remark(d.first+n.Line-1, t, fmt.Sprintf("nobody here, nor kubectl, knows the tag %s: it is left out, and what is behind it is taken as it is written", t), "write the value that is meant, or have the tool that knows the tag write the file")
		}
	})
}

// eachNode goes through a node and all within it, in order. What an alias stands for is gone through where it is written.
func eachNode(n *yaml.Node, do func(*yaml.Node)) {
	do(n)
	for _, child := range n.Content {
		eachNode(child, do)
	}
}
