package condition

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Controller is our name in the Gateway API: of GatewayClasses that are ours, and of what is ours in statuses that several
// controllers write.
const Controller = "egress.sallyport.io/gateway-controller"

// Group is the Gateway API's.
const Group = "gateway.networking.k8s.io"

// maxEntries is how many parents or ancestors a status has at most, by the API's schema.
var maxEntries = map[string]int{"parents": 32, "ancestors": 16}

// Standard is what Sallyport writes of the status of an object of the Gateway API, as JSON, without times. In routes and policies it
// is the entries with our controllerName; others' stay as they are. Elsewhere it is all but conditions of others' own types,
// whose names have a domain.
type Standard map[string]any

// ParseStandard picks out of an object's status what is ours. A status that cannot be read holds nothing of ours.
func ParseStandard(status []byte) Standard {
	s := decoded(status)
	strip(s)
	for name := range maxEntries {
		if entries, ok := s[name].([]any); ok {
			if s[name] = slices.DeleteFunc(entries, func(e any) bool { return !oursEntry(e) }); len(s[name].([]any)) == 0 {
				delete(s, name)
			}
		}
	}
	if all, ok := s["conditions"].([]any); ok {
		s["conditions"] = slices.DeleteFunc(all, foreign)
	}
	return s
}

// WantStandard is what a status (a value of the API's status types, without times and generations) comes to for a generation.
func WantStandard(status any, generation int64) Standard {
	text, err := json.Marshal(status)
	if err != nil {
		return Standard{}
	}
	s := decoded(text)
	observe(map[string]any(s), generation)
	return ParseStandard(must(json.Marshal(s)))
}

// Digest covers everything; it is 0 for nothing.
func (s Standard) Digest() uint64 {
	if len(s) == 0 {
		return 0
	}
	return xxhash.Sum64(must(json.Marshal(s))) // keys are sorted
}

// Over gives what of a held status changes, as a merge patch, when what is ours in it becomes s. Times are those of the last
// transition; nil is for no change.
func (s Standard) Over(held []byte, now time.Time) map[string]any {
	has := decoded(held)
	if s.Digest() == ParseStandard(held).Digest() {
		return nil
	}
	patch := map[string]any{}
	want := decoded(must(json.Marshal(s)))
	stamp(want, has, now.UTC().Format(time.RFC3339))
	for name := range has {
		if _, stays := want[name]; !stays {
			patch[name] = nil
		}
	}
	maps.Copy(patch, want)
	for name, most := range maxEntries {
		ours, _ := want[name].([]any)
		theirs, _ := has[name].([]any)
		if ours == nil && theirs == nil {
			continue
		}
		all := append(slices.DeleteFunc(slices.Clone(theirs), oursEntry), ours...)
		patch[name] = all[:min(len(all), most)]
	}
	if theirs, ok := has["conditions"].([]any); ok {
		ours, _ := want["conditions"].([]any)
		patch["conditions"] = append(slices.DeleteFunc(slices.Clone(theirs), func(c any) bool { return !foreign(c) }), ours...)
	}
	return patch
}

// oursEntry says whether a parent or ancestor is ours.
func oursEntry(e any) bool {
	m, ok := e.(map[string]any)
	return ok && m["controllerName"] == Controller
}

// foreign says whether a condition is of a type that somebody else made up.
func foreign(c any) bool {
	m, _ := c.(map[string]any)
	name, _ := m["type"].(string)
	return strings.Contains(name, "/")
}

// isCondition says whether a JSON object is a condition.
func isCondition(m map[string]any) bool {
	_, typed := m["type"].(string)
	_, says := m["status"].(string)
	return typed && says
}

// strip takes the times out.
func strip(v any) {
	each(v, func(m map[string]any) { delete(m, "lastTransitionTime") })
}

// observe writes the generation into conditions.
func observe(v any, generation int64) {
	each(v, func(m map[string]any) { m["observedGeneration"] = json.Number(jsonInt(generation)) })
}

// each calls f for every condition in a value.
func each(v any, f func(map[string]any)) {
	switch v := v.(type) {
	case Standard:
		each(map[string]any(v), f)
	case map[string]any:
		if isCondition(v) {
			f(v)
			return
		}
		for _, part := range v {
			each(part, f)
		}
	case []any:
		for _, part := range v {
			each(part, f)
		}
	}
}

// stamp gives conditions the time of their last transition: the held one where the same condition has the same status.
func stamp(want, has any, now string) {
	switch want := want.(type) {
	case Standard:
		held, _ := has.(Standard)
		stamp(map[string]any(want), map[string]any(held), now)
	case map[string]any:
		held, _ := has.(map[string]any)
		if isCondition(want) {
			want["lastTransitionTime"] = now
			if at, ok := held["lastTransitionTime"].(string); ok && held["status"] == want["status"] {
				want["lastTransitionTime"] = at
			}
			return
		}
		for name, part := range want {
			stamp(part, held[name], now)
		}
	case []any:
		held, _ := has.([]any)
		for _, part := range want {
			stamp(part, counterpart(part, held), now)
		}
	}
}

// counterpart is the element of a held list that stands for the same thing.
func counterpart(of any, held []any) any {
	id := identity(of)
	for _, h := range held {
		if id != "" && identity(h) == id {
			return h
		}
	}
	return nil
}

// identity tells the elements of a list apart: conditions by type, listeners by name, parents and ancestors by whom they mean.
func identity(of any) string {
	m, _ := of.(map[string]any)
	if isCondition(m) {
		return "condition " + m["type"].(string)
	}
	for _, by := range []string{"name", "parentRef", "ancestorRef"} {
		if m[by] != nil {
			return by + " " + string(must(json.Marshal(m[by])))
		}
	}
	return ""
}

// decoded is a JSON object, with numbers as they are written; an empty one when it is none.
func decoded(text []byte) Standard {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var s Standard
	if in.Decode(&s) != nil || s == nil {
		return Standard{}
	}
	return s
}

func jsonInt(n int64) string { return string(must(json.Marshal(n))) }

// must is for values that came from JSON.
func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}
