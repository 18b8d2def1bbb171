package record

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxSize is how many bytes a record has as JSON at most, after Bound. What clients write into a request, a ClientHello or
// a question can be much longer, and is nobody's to fill the log with.
const MaxSize = 8 << 10

const (
	// aroundTexts is what the keys, numbers and times of a record take of MaxSize, and the names in Cut.
	aroundTexts = 2400
	maxTexts    = MaxSize - aroundTexts
	maxFlags    = 16
	cutMark     = "…"
)

// part is one text of a record and how many bytes it may have.
type part struct {
	name string // as in JSON
	text *string
	most int
}

// maxParts is how many texts a record has that can be cut.
const maxParts = 46

// parts are the texts that others can make long, in a slice of room; those of a policy's rules are left out where there are none. Names
// of hosts have 253 bytes at most, addresses 45 and a port.
func (r *Record) parts(room *[maxParts]part) []part {
	w, to, d := &r.Workload, &r.DestinationWorkload, &r.DecidedBy
	parts := append(room[:0], []part{
		{"path", &r.Path, 64},
		{"reporter", &r.Reporter, 64},
		{"direction", &r.Direction, 32},
		{"workload.principal", &w.Principal, 1024},
		{"workload.namespace", &w.Namespace, 256},
		{"workload.serviceAccount", &w.ServiceAccount, 256},
		{"workload.name", &w.Name, 256},
		{"workload.labels", &w.Labels, MaxLabels},
		{"destinationWorkload.principal", &to.Principal, 1024},
		{"destinationWorkload.namespace", &to.Namespace, 256},
		{"destinationWorkload.serviceAccount", &to.ServiceAccount, 256},
		{"destinationWorkload.name", &to.Name, 256},
		{"destinationWorkload.labels", &to.Labels, MaxLabels},
		{"claim", &r.Claim, 1024},
		{"source", &r.Source, 256},
		{"forwardedFor", &r.ForwardedFor, 256},
		{"host", &r.Host, 512},
		{"sni", &r.SNI, 512},
		{"authority", &r.Authority, 512},
		{"destination", &r.Destination, 256},
		{"dialled", &r.Dialled, 256},
		{"protocol", &r.Protocol, 64},
		{"method", &r.Method, 64},
		{"urlPath", &r.URLPath, 4096},
		{"cluster", &r.Cluster, 512},
		{"route", &r.Route, 512},
		{"decidedBy.kind", &d.Kind, 128},
		{"decidedBy.namespace", &d.Namespace, 256},
		{"decidedBy.name", &d.Name, 256},
		{"decidedBy.rule", &d.Rule, 512},
		{"decidedBy.revision", &d.Revision, 64},
		{"reason", &r.Reason, 1024},
		{"verdict", (*string)(&r.Verdict), 32},
	}...)
	if by := &r.AllowedBy; !by.IsZero() {
		parts = append(parts,
			part{"allowedBy.kind", &by.Kind, 128}, part{"allowedBy.namespace", &by.Namespace, 256}, part{"allowedBy.name", &by.Name, 256},
			part{"allowedBy.rule", &by.Rule, 512}, part{"allowedBy.revision", &by.Revision, 64})
	}
	if by := &r.WouldDeny; !by.IsZero() {
		parts = append(parts,
			part{"wouldDeny.kind", &by.Kind, 128}, part{"wouldDeny.namespace", &by.Namespace, 256}, part{"wouldDeny.name", &by.Name, 256},
			part{"wouldDeny.rule", &by.Rule, 512}, part{"wouldDeny.revision", &by.Revision, 64})
	}
	if r.Action != "" || r.Actor != "" || r.ActorBy != "" {
		parts = append(parts, part{"actor", &r.Actor, 1024}, part{"actorBy", &r.ActorBy, 64}, part{"action", &r.Action, 64})
	}
	return parts
}

// Bound cuts texts that are too long, each and then the longest, until the record fits into MaxSize bytes of JSON. A text
// that was cut ends with "…", and Cut names its field. It does nothing to what fits. Proxy and Class, which tell records
// apart, are not cut.
func (r *Record) Bound() {
	var room [maxParts]part
	parts := r.parts(&room)
	raw, over := len(r.Proxy)+len(r.Class), len(r.Flags) > maxFlags
	for i := range parts {
		raw += len(*parts[i].text)
		over = over || len(*parts[i].text) > parts[i].most
	}
	for _, f := range r.Flags {
		raw += len(f) + 1
		over = over || len(f) > maxFlags
	}
	if !over && raw*6 <= maxTexts && len(r.Cut) == 0 { // no byte takes more than six in JSON
		return
	}
	was := r.Cut
	r.Cut = nil
	r.Flags = r.Flags[:min(len(r.Flags), maxFlags)]
	for i, f := range r.Flags {
		if len(f) > maxFlags {
			r.Flags = slices.Clone(r.Flags)
			r.Flags[i] = shorten(f, maxFlags)
		}
	}
	for i := range parts {
		r.cut(&parts[i], parts[i].most, was)
	}
	r.cutLongest(parts, maxTexts)
}

// Shorten cuts the longest texts, as Bound does, until all of them take at most so many bytes of JSON. Proxy, Class and Flags count, and are not cut.
func (r *Record) Shorten(most int) {
	var room [maxParts]part
	r.cutLongest(r.parts(&room), most)
}

// Texts is how many bytes of text a record holds.
func (r *Record) Texts() int {
	var room [maxParts]part
	n := len(r.Proxy) + len(r.Class)
	for _, p := range r.parts(&room) {
		n += len(*p.text)
	}
	for _, f := range r.Flags {
		n += len(f)
	}
	return n
}

// cutLongest cuts the longest text until all of them take at most so many bytes of JSON.
func (r *Record) cutLongest(parts []part, most int) {
	fixed := sizeOf(r.Proxy) + sizeOf(string(r.Class))
	for _, f := range r.Flags {
		fixed += sizeOf(f)
	}
	for {
		total := fixed
		for i := range parts {
			total += sizeOf(*parts[i].text)
		}
		longest := slices.MaxFunc(parts, func(a, b part) int { return cmp.Compare(sizeOf(*a.text), sizeOf(*b.text)) })
		if total <= most || *longest.text == "" {
			return
		}
		r.cut(&longest, len(*longest.text)*3/4, nil)
	}
}

// cut shortens a text to most bytes, and notes that it was, or that somebody had done so before.
func (r *Record) cut(p *part, most int, before []string) {
	if len(*p.text) > most {
		*p.text = shorten(*p.text, most)
	} else if !slices.Contains(before, p.name) {
		return
	}
	if !slices.Contains(r.Cut, p.name) {
		r.Cut = append(r.Cut, p.name)
	}
}

// shorten leaves the beginning of a text, in whole runes, and says that there was more.
func shorten(s string, most int) string {
	if most <= len(cutMark) {
		return ""
	}
	end := most - len(cutMark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	// Copied: the rest of a long text shall not stay in memory with it.
	return strings.Clone(s[:end]) + cutMark
}

// sizeOf is how many bytes a text takes as JSON, with its quotes.
func sizeOf(s string) int {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return len(s) + 2
	}
	b, _ := json.Marshal(s) // a string always can
	return len(b)
}
