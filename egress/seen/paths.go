package seen

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// Paths learns templates of paths, as EgressPolicies write them: "*" for a segment that varies, "**" for the rest. What it has learned does
// not depend on the order, and its size is bounded.
type Paths struct {
	root  segment
	nodes int
	any   bool // too many to tell
	// Unclear is a path that has no single meaning, and that no rule with paths lets through; "" where there is none.
	Unclear string
}

// segment is a part of a path and what may follow.
type segment struct {
	next    map[string]*segment // by what is written; "*" for what varies
	all     bool                // of "*": nothing is told apart from it but the empty text
	example string              // of a path that ends here; "" if none does
	open    string              // likewise of one that goes on, nobody knows how
}

// The bounds of templates. Where more different texts are seen at a place than mostSiblings, the place varies.
const (
	mostSiblings = 16
	mostDeep     = 16
	mostNodes    = 4096
	mostSegment  = 128  // bytes, of one that is written
	mostPattern  = 1000 // bytes; a rule's path has 1,024 at most
)

const varies = "*"

// cutMark is what a path that was too long for its record ends with (record.Bound).
const cutMark = "…"

// Add learns a path, without its query.
func (p *Paths) Add(path string) {
	if path == "" {
		path = "/"
	}
	whole, cut := strings.CutSuffix(path, cutMark)
	if cut {
		whole = whole[:strings.LastIndexByte(whole, '/')+1]
	}
	if !egresspolicy.IsNormal(whole) {
		if p.Unclear == "" || path < p.Unclear {
			p.Unclear = path
		}
		return
	}
	segments := strings.Split(strings.TrimPrefix(whole, "/"), "/")
	if cut {
		segments = segments[:len(segments)-1]
	}
	p.insert(segments, whole, cut)
}

func (p *Paths) insert(segments []string, example string, open bool) {
	if p.any {
		return
	}
	if len(segments) > mostDeep {
		segments, open = segments[:mostDeep], true
	}
	at := &p.root
	for _, s := range segments {
		at = p.step(at, s)
	}
	if open {
		at.open = first(at.open, example)
	} else {
		at.example = first(at.example, example)
	}
	if p.nodes > mostNodes {
		p.any, p.root = true, segment{}
	}
}

// step goes to what follows a segment by a text.
func (p *Paths) step(at *segment, text string) *segment {
	if text != "" && (at.wide() || changes(text)) {
		text = varies
	}
	if next := at.next[text]; next != nil {
		return next
	}
	if at.next == nil {
		at.next = map[string]*segment{}
	}
	at.next[text] = &segment{}
	p.nodes++
	if at.literals() > mostSiblings {
		p.widen(at)
	}
	if text != "" && at.wide() {
		text = varies
	}
	return at.next[text]
}

// literals counts what is written and does not vary. The empty text, which a slash at the end leaves, never does: "*" is not for it.
func (s *segment) literals() int {
	n := len(s.next)
	for _, text := range []string{"", varies} {
		if s.next[text] != nil {
			n--
		}
	}
	return n
}

// wide says whether all that follows varies, since it was too much.
func (s *segment) wide() bool { return s.next[varies] != nil && s.next[varies].all }

// widen makes one of all that follows a segment.
func (p *Paths) widen(at *segment) {
	into := at.next[varies]
	if into == nil {
		into = &segment{}
		at.next[varies] = into
	}
	into.all = true
	for _, text := range slices.Sorted(maps.Keys(at.next)) {
		if text != "" && text != varies {
			from := at.next[text]
			delete(at.next, text)
			p.merge(into, from)
		}
	}
	p.nodes = p.root.count()
}

// merge takes what follows one segment into another.
func (p *Paths) merge(into, from *segment) {
	into.example, into.open = first(into.example, from.example), first(into.open, from.open)
	for _, text := range slices.Sorted(maps.Keys(from.next)) {
		next := p.step(into, text)
		if from.next[text].all && !next.all {
			p.widen(into)
			next = into.next[varies]
		}
		p.merge(next, from.next[text])
	}
}

func (s *segment) count() int {
	n := len(s.next)
	for _, next := range s.next {
		n += next.count()
	}
	return n
}

// first is the lesser of two texts that are there.
func first(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// Merge learns what another has learned.
func (p *Paths) Merge(o *Paths) {
	if o.Unclear != "" && (p.Unclear == "" || o.Unclear < p.Unclear) {
		p.Unclear = o.Unclear
	}
	if p.any = p.any || o.any; p.any {
		p.root = segment{}
		return
	}
	p.merge(&p.root, &o.root)
	if p.nodes = p.root.count(); p.nodes > mostNodes {
		p.any, p.root = true, segment{}
	}
}

// Template is a pattern and a path that was seen and that it is for.
type Template struct{ Pattern, Example string }

// Templates gives at most so many patterns, in order, which together are for every path that was learned but those that are unclear. None
// stands for any path: there are too many to tell, or there is one that no pattern is for.
func (p *Paths) Templates(most int) []Template {
	if p.any || p.Unclear != "" {
		return nil
	}
	for deep := mostDeep + 1; deep > 0; deep-- {
		out := p.root.templates(nil, "", deep)
		if len(out) <= most {
			for _, t := range out {
				if t.Pattern == "/**" {
					return nil
				}
			}
			slices.SortFunc(out, func(a, b Template) int { return strings.Compare(a.Pattern, b.Pattern) })
			return out
		}
	}
	return nil
}

// Examples are paths that were seen, one for each template, and one that is unclear.
func (p *Paths) Examples() (out []string) {
	for _, t := range p.root.templates(nil, "", mostDeep+1) {
		out = append(out, t.Example)
	}
	if p.Unclear != "" {
		out = append(out, p.Unclear)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// templates are those of what follows prefix, so many segments deep; what is deeper is "**".
func (s *segment) templates(out []Template, prefix string, deep int) []Template {
	if s.open != "" || deep == 0 && s.next != nil || s.next != nil && len(prefix) > mostPattern-mostSegment-1 {
		return append(out, Template{prefix + "/**", s.anyExample()})
	}
	if s.example != "" {
		out = append(out, Template{prefix, s.example})
	}
	for _, text := range slices.Sorted(maps.Keys(s.next)) {
		out = s.next[text].templates(out, prefix+"/"+text, deep-1)
	}
	return out
}

func (s *segment) anyExample() string {
	out := first(s.example, s.open)
	for _, next := range s.next {
		out = first(out, next.anyExample())
	}
	return out
}

var varying = regexp.MustCompile(`^(?:[0-9]+|[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})$`)

var (
	hex   = regexp.MustCompile(`^[0-9a-fA-F]{8,}$`)
	plain = regexp.MustCompile(`^(?:[!$&'()+,.:=@_~0-9A-Za-z-]|%[0-9A-Fa-f]{2})+$`)
)

// changes says whether a segment looks like one that is another each time: a number, a date, a UUID, a hash, a token; or like none that a
// rule can write.
func changes(s string) bool {
	digit := strings.ContainsAny(s, "0123456789")
	return varying.MatchString(s) || digit && hex.MatchString(s) || digit && len(s) >= 24 || len(s) > mostSegment || !plain.MatchString(s)
}
