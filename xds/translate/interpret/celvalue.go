package interpret

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// celValue is a string, int64, bool, []celValue, map[string]celValue, or a lookup.
type celValue struct{ v any }

// lookup is a map whose values are made when they are asked for.
type lookup func(key string) (celValue, error)

func (v celValue) text() string {
	s, ok := v.v.(string)
	if !ok {
		unknown("an expression that gives %T, as text", v.v)
	}
	return s
}

func (v celValue) truth() bool {
	b, ok := v.v.(bool)
	if !ok {
		unknown("an expression that gives %T, as a condition", v.v)
	}
	return b
}

// errMissing is that something is not there. CEL goes on with errors only where the other side of || or && decides.
var errMissing = errors.New("no such value")

// evaluate gives an expression's value.
func evaluate(e *expr, s *scope) (celValue, error) {
	switch e.op {
	case "lit":
		return celValue{e.lit}, nil
	case "id":
		return s.attribute(e.name)
	case "||", "&&":
		return junction(e, s)
	}
	args := make([]celValue, len(e.args))
	for i, a := range e.args {
		v, err := evaluate(a, s)
		if err != nil {
			return v, err
		}
		args[i] = v
	}
	switch e.op {
	case "list":
		return celValue{args}, nil
	case ".":
		return member(args[0], e.name)
	case "[]":
		return index(args[0], args[1])
	default:
		return call(e.op, args)
	}
}

// junction is || or &&: an error on one side is nothing, where the other decides.
func junction(e *expr, s *scope) (celValue, error) {
	decides := e.op == "||"
	var failed error
	for _, a := range e.args {
		v, err := evaluate(a, s)
		if err != nil {
			failed = err
		} else if v.truth() == decides {
			return v, nil
		}
	}
	return celValue{!decides}, failed
}

func member(of celValue, name string) (celValue, error) {
	switch m := of.v.(type) {
	case lookup:
		return m(name)
	case map[string]celValue:
		if v, ok := m[name]; ok {
			return v, nil
		}
		return celValue{}, errMissing
	default:
		unknown("the member %q of %T in an expression", name, of.v)
		return celValue{}, nil
	}
}

func index(of, at celValue) (celValue, error) {
	list, ok := of.v.([]celValue)
	if !ok {
		return member(of, at.text())
	}
	i, ok := at.v.(int64)
	if !ok {
		unknown("a list's element %v in an expression", at.v)
	}
	if i < 0 || i >= int64(len(list)) {
		return celValue{}, fmt.Errorf("element %d of %d", i, len(list))
	}
	return list[i], nil
}

// call calls a function that has no say in what of its arguments is looked at.
func call(name string, args []celValue) (celValue, error) {
	is := func(function string, n int) bool { return name == function && len(args) == n }
	switch {
	case is("+", 2):
		return celValue{args[0].text() + args[1].text()}, nil
	case is("==", 2), is("!=", 2):
		return celValue{same(args[0], args[1]) == (name == "==")}, nil
	case is("!", 1):
		return celValue{!args[0].truth()}, nil
	case is("in", 2):
		list, ok := args[1].v.([]celValue)
		if !ok {
			unknown("in %T, in an expression", args[1].v)
		}
		return celValue{slices.ContainsFunc(list, func(v celValue) bool { return same(args[0], v) })}, nil
	case is("string", 1):
		return celValue{args[0].text()}, nil
	case is("lowerAscii", 1):
		return celValue{strings.ToLower(args[0].text())}, nil
	case is("startsWith", 2):
		return celValue{strings.HasPrefix(args[0].text(), args[1].text())}, nil
	case is("replace", 3):
		return celValue{strings.ReplaceAll(args[0].text(), args[1].text(), args[2].text())}, nil
	case is("split", 2):
		var out []celValue
		for _, part := range strings.Split(args[0].text(), args[1].text()) {
			out = append(out, celValue{part})
		}
		return celValue{out}, nil
	default:
		unknown("the function %s of %d arguments in an expression", name, len(args))
		return celValue{}, nil
	}
}

func same(a, b celValue) bool {
	switch a.v.(type) {
	case string, int64, bool:
		if fmt.Sprintf("%T", a.v) != fmt.Sprintf("%T", b.v) {
			unknown("an expression compares %T and %T", a.v, b.v)
		}
		return a.v == b.v
	default:
		unknown("an expression compares %T", a.v)
		return false
	}
}

// attribute is one of those that Envoy gives.
func (s *scope) attribute(name string) (celValue, error) {
	of := func(values map[string]func() (celValue, error)) (celValue, error) {
		return celValue{lookup(func(key string) (celValue, error) {
			if f := values[key]; f != nil {
				return f()
			}
			unknown("the attribute %s.%s", name, key)
			return celValue{}, nil
		})}, nil
	}
	text := func(s string) func() (celValue, error) {
		return func() (celValue, error) { return celValue{s}, nil }
	}
	switch name {
	case "connection":
		return of(map[string]func() (celValue, error){"requested_server_name": text(s.sni)})
	case "source", "destination":
		at := map[string]func() (celValue, error){"address": func() (celValue, error) {
			s.mustBeOutside(name + ".address")
			if name == "source" {
				return celValue{s.from.String()}, nil
			}
			return celValue{s.to.String()}, nil
		}}
		return of(at)
	case "metadata":
		return of(map[string]func() (celValue, error){"filter_metadata": func() (celValue, error) { return nested(s.metadata), nil }})
	case "filter_state":
		return celValue{lookup(func(key string) (celValue, error) {
			if v, ok := s.state[key]; ok {
				return celValue{v.text}, nil
			}
			return celValue{}, errMissing
		})}, nil
	case "response":
		return of(map[string]func() (celValue, error){
			"code":         func() (celValue, error) { return celValue{int64(s.entry.Status)}, nil },
			"code_details": text(s.entry.Details),
		})
	case "xds":
		return of(map[string]func() (celValue, error){"cluster_metadata": func() (celValue, error) {
			if s.cluster == nil {
				return celValue{}, errMissing
			}
			return of(map[string]func() (celValue, error){"filter_metadata": func() (celValue, error) { return nested(texts(s.cluster.Metadata)), nil }})
		}})
	default:
		unknown("the attribute %s", name)
		return celValue{}, nil
	}
}

func nested(m map[string]map[string]string) celValue {
	out := map[string]celValue{}
	for ns, values := range m {
		of := map[string]celValue{}
		for k, v := range values {
			of[k] = celValue{v}
		}
		out[ns] = celValue{of}
	}
	return celValue{out}
}
