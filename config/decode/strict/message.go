package strict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxProblems bounds what is reported for one tree: who has more has the wrong file.
const maxProblems = 20

// Message compares tree with the message type md. path is the tree's place in the document ("spec"). The problems
// are in the order of their paths, at most 20.
func Message(tree any, md protoreflect.MessageDescriptor, path string) []Problem {
	c := &checker{}
	c.message(tree, md, path)
	return c.problems
}

type checker struct{ problems []Problem }

func (c *checker) add(path string, value any, message, fix string) {
	if len(c.problems) >= maxProblems {
		return
	}
	p := Problem{Field: path, Message: message, Fix: fix}
	if value != nil {
		p.Value = Show(value)
	}
	c.problems = append(c.problems, p)
}

// message checks one mapping. null stands for an unset field everywhere.
func (c *checker) message(tree any, md protoreflect.MessageDescriptor, path string) {
	if tree == nil {
		return
	}
	if check, ok := wellKnown[md.FullName()]; ok {
		check(c, tree, path)
		return
	}
	fields, ok := tree.(map[string]any)
	if !ok {
		c.add(path, tree, "is "+kind(tree)+", not a mapping of fields", "write "+Join(path, "FIELD")+": VALUE")
		return
	}
	chosen := map[protoreflect.Name]string{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, at := fields[name], Join(path, name)
		fd := field(md, name)
		if fd == nil {
			c.unknown(md, name, at)
			continue
		}
		if one := fd.ContainingOneof(); one != nil && value != nil {
			if other, taken := chosen[one.Name()]; taken {
				c.add(at, value, "cannot be set together with "+other, "keep one of the two")
			}
			chosen[one.Name()] = name
		}
		c.field(value, fd, at)
	}
}

// field looks a name up as JSON writes it (exportTo) and as protobuf does (export_to); Istio takes both.
func field(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByJSONName(name); fd != nil {
		return fd
	}
	return md.Fields().ByName(protoreflect.Name(name))
}

func (c *checker) unknown(md protoreflect.MessageDescriptor, name, at string) {
	names := Fields(md)
	fix := "remove it; the fields here are " + strings.Join(names, ", ")
	if meant := Closest(name, names); meant != "" {
		fix = fmt.Sprintf("did you mean %q?", meant)
	}
	c.add(at, nil, "unknown field", fix)
}

// Fields lists the names of a message's fields as JSON writes them.
func Fields(md protoreflect.MessageDescriptor) []string {
	names := make([]string, md.Fields().Len())
	for i := range names {
		names[i] = md.Fields().Get(i).JSONName()
	}
	return names
}

func (c *checker) field(value any, fd protoreflect.FieldDescriptor, path string) {
	switch {
	case value == nil:
	case fd.IsMap():
		entries, ok := value.(map[string]any)
		if !ok {
			c.add(path, value, "is "+kind(value)+", not a mapping", "write a mapping of keys to values")
			return
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			c.single(entries[key], fd.MapValue(), Join(path, key))
		}
	case fd.IsList():
		items, ok := value.([]any)
		if !ok {
			c.add(path, value, "is "+kind(value)+", not a list", `write a list, each item on its own line after "- "`)
			return
		}
		for i, item := range items {
			if item == nil {
				c.add(index(path, i), nil, "the item is empty", "give it a value or remove it")
				continue
			}
			c.single(item, fd, index(path, i))
		}
	default:
		c.single(value, fd, path)
	}
}
