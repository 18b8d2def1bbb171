package interpret

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// celValue is a string, int64, bool, time.Time, []celValue, map[string]celValue, or a lookup.
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

func (v celValue) isText() bool {
	_, ok := v.v.(string)
	return ok
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
	case "?:":
		v, err := evaluate(e.args[0], s)
		if err != nil {
			return v, err
		}
		if v.truth() {
			return evaluate(e.args[1], s)
		}
		return evaluate(e.args[2], s)
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
		switch in := args[1].v.(type) {
		case []celValue:
			return celValue{slices.ContainsFunc(in, func(v celValue) bool { return same(args[0], v) })}, nil
		case map[string]celValue:
			_, there := in[args[0].text()]
			return celValue{there}, nil
		default:
			unknown("in %T, in an expression", in)
		}
		return celValue{}, nil
	case is("<", 2) && args[0].isText() && args[1].isText():
		return celValue{args[0].text() < args[1].text()}, nil
	case is("<", 2), is(">=", 2):
		a, ok := args[0].v.(time.Time)
		b, ok2 := args[1].v.(time.Time)
		if !ok || !ok2 {
			unknown("%T %s %T, in an expression", args[0].v, name, args[1].v)
		}
		return celValue{a.Before(b) == (name == "<")}, nil
	case is("-", 2):
		a, ok := args[0].v.(time.Time)
		b, ok2 := args[1].v.(time.Time)
		if !ok || !ok2 {
			unknown("%T - %T, in an expression", args[0].v, args[1].v)
		}
		return celValue{a.Sub(b)}, nil
	case is("getSeconds", 1):
		d, ok := args[0].v.(time.Duration)
		if !ok {
			unknown("the seconds of %T, in an expression", args[0].v)
		}
		return celValue{int64(d / time.Second)}, nil
	case is("timestamp", 1):
		t, err := time.Parse(time.RFC3339, args[0].text())
		return celValue{t}, err
	case is("substring", 3):
		from, ok := args[1].v.(int64)
		to, ok2 := args[2].v.(int64)
		letters := []rune(args[0].text())
		if !ok || !ok2 || from < 0 || from > to || to > int64(len(letters)) {
			return celValue{}, fmt.Errorf("letters %v to %v of %d", args[1].v, args[2].v, len(letters))
		}
		return celValue{string(letters[from:to])}, nil
	case is("string", 1):
		if n, ok := args[0].v.(int64); ok {
			return celValue{strconv.FormatInt(n, 10)}, nil
		}
		return celValue{args[0].text()}, nil
	case is("lowerAscii", 1):
		return celValue{strings.ToLower(args[0].text())}, nil
	case is("startsWith", 2):
		return celValue{strings.HasPrefix(args[0].text(), args[1].text())}, nil
	case is("contains", 2):
		return celValue{strings.Contains(args[0].text(), args[1].text())}, nil
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
		return of(map[string]func() (celValue, error){
			"requested_server_name": text(s.sni),
			"termination_details": func() (celValue, error) { // which a filter that closed the connection left
				if s.entry == nil || s.request != nil || s.entry.Details == "" {
					return celValue{}, errMissing
				}
				return celValue{s.entry.Details}, nil
			},
		})
	case "source", "destination":
		at := map[string]func() (celValue, error){"address": func() (celValue, error) {
			s.mustBeOutside(name + ".address")
			if name == "source" {
				return celValue{s.from.String()}, nil
			}
			return celValue{s.to.String()}, nil
		}}
		if name == "destination" {
			at["port"] = func() (celValue, error) {
				s.mustBeOutside(name + ".port")
				return celValue{int64(s.to.Port())}, nil
			}
		}
		return of(at)
	case "request":
		return of(map[string]func() (celValue, error){
			"host": func() (celValue, error) {
				if s.request == nil {
					return celValue{}, errMissing
				}
				return celValue{s.request.Authority}, nil
			},
			"method": func() (celValue, error) {
				if s.request == nil {
					return celValue{}, errMissing
				}
				return celValue{s.request.Method}, nil
			},
			"protocol": text("HTTP/1.1"), // which only what ends connections looks at
			"headers": func() (celValue, error) {
				return celValue{lookup(func(name string) (celValue, error) {
					if s.request == nil {
						return celValue{}, errMissing
					}
					v, there := s.request.header(name)
					if !there {
						return celValue{}, errMissing
					}
					return celValue{v}, nil
				})}, nil
			},
			"time": func() (celValue, error) {
				if s.at.IsZero() {
					unknown("request.time, of a connection that comes at no time")
				}
				return celValue{s.at}, nil
			},
		})
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
