package decode

import "go.yaml.in/yaml/v3"

// itemLines finds the lines of the file that a list's items begin at. It returns nil when it cannot tell.
func itemLines(d document, want int) []int {
	var root yaml.Node
	if yaml.Unmarshal(d.text, &root) != nil || len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	top := root.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		if top[i].Value != "items" || top[i+1].Kind != yaml.SequenceNode || len(top[i+1].Content) != want {
			continue
		}
		lines := make([]int, want)
		for j, item := range top[i+1].Content {
			lines[j] = d.first + item.Line - 1
		}
		return lines
	}
	return nil
}
