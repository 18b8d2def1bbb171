package tunnels

import (
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/xds/wire"
)

const (
	// settle is how long a change is left alone, and twice that at most, before it is asked about what they touch: an edit is several resources, and Envoy's workers take
	// them a little later than it says.
	settle = 250 * time.Millisecond
	// again is after which time what was denied is asked about once more, before it is ended: who replaces an object by taking it away and
	// writing it anew ends nothing.
	again = time.Second
	// retry is after which time it is tried again what did not work.
	retry = 2 * time.Second
	// late is how much later than it happened a tunnel's beginning may be told.
	late = 5 * time.Second
	// overdue is how much later than a rule's end it is asked, by which Envoy's clock says so too.
	overdue = 20 * time.Millisecond
)

// question is what is asked about a number of tunnels.
type question struct {
	envoylog.Question
	host, namespace string
	tunnels         map[*tunnel]struct{}
	due             time.Time // zero: nothing has happened that is about it (plan.ask)
	denied          string    // why, when it was asked last
}

// plan says what is to be asked about when. It has no goroutine and no clock.
type plan struct {
	questions map[envoylog.Question]*question
	about     map[string]set // questions, by what a change may be about: topics
	due       set            // those that are to be asked
	touched   scope          // by changes that are gathered
	from      time.Time      // when they are looked at; zero: there are none
	after     scope          // by changes that came while others were gathered
	afterAt   time.Time      // when the last of these came; zero: there are none
	last      time.Time      // when the last change came
	turns     boundaries
	unseen    unseen
	turned    time.Time // up to when turns have been looked at
}

func newPlan() *plan {
	return &plan{questions: map[envoylog.Question]*question{}, about: map[string]set{}, due: set{}, turns: boundaries{}, unseen: unseen{}}
}

// set are some questions.
type set map[*question]struct{}

// topics are what a change has to be about for a question to be asked again: its host, as rows may name that, and its client's namespace.
// A connection that was asked about by its address is about the host that it is registered for.
func (q *question) topics(each func(string)) {
	each(q.host)
	each(ofNamespace + q.namespace)
	if q.Registered != "" && q.Registered != q.host {
		each(q.Registered)
	}
	for rest := q.host[max(len(q.host)-wire.MostHost-len("."), 0):]; ; { // no pattern is longer
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			return
		}
		each(rest[dot:])
		rest = rest[dot+1:]
	}
}

// topicOf is that of a host as rows have it: of a pattern what begins with the dot, which takes no memory beside the host's that is below it.
func topicOf(host string) string {
	if strings.HasPrefix(host, "*.") {
		return host[1:]
	}
	return host
}

// ask has a question asked at a time; zero: not any more.
func (p *plan) ask(q *question, at time.Time) {
	q.due = at
	if at.IsZero() || len(q.tunnels) == 0 { // which is over
		delete(p.due, q)
	} else {
		p.due[q] = struct{}{}
	}
}

// meant are the questions that a change is about: it costs what they are, and not what is open.
func (p *plan) meant(s *scope, each func(*question)) {
	if s.all {
		for _, q := range p.questions {
			each(q)
		}
		return
	}
	for host := range s.hosts {
		for q := range p.about[topicOf(host)] {
			each(q)
		}
	}
	for ns := range s.namespaces {
		for q := range p.about[ofNamespace+ns] {
			each(q)
		}
	}
}

// begin adds a tunnel. What has changed since it was asked about has to be asked again; it says whether that is so.
func (p *plan) begin(of envoylog.Question, t *tunnel, began, now time.Time) bool {
	q := p.questions[of]
	if q == nil {
		q = &question{Question: of, host: of.Host(), namespace: of.Namespace(), tunnels: map[*tunnel]struct{}{}}
		p.questions[of] = q
		q.topics(func(topic string) {
			if p.about[topic] == nil {
				p.about[topic] = set{}
			}
			p.about[topic][q] = struct{}{}
		})
	}
	t.asked = q
	q.tunnels[t] = struct{}{}
	if !q.due.IsZero() {
		return false
	}
	if began.Before(p.last.Add(late)) || began.Before(p.turned) && p.turns.between(began, p.turned) || q.denied != "" {
		p.ask(q, now.Add(settle))
	}
	return !q.due.IsZero()
}

// done takes a tunnel out.
func (p *plan) done(t *tunnel) {
	q := t.asked
	if delete(q.tunnels, t); len(q.tunnels) > 0 {
		return
	}
	delete(p.questions, q.Question)
	delete(p.due, q)
	q.topics(func(topic string) {
		if delete(p.about[topic], q); len(p.about[topic]) == 0 {
			delete(p.about, topic)
		}
	})
}

// change takes a change; it says whether anything may come of it.
func (p *plan) change(c Change, now time.Time) bool {
	touched, about := scopeOf(c)
	if !about {
		return false
	}
	p.last = now
	p.turns.set(c)
	p.unseen.set(c)
	if p.from.IsZero() {
		p.touched.add(touched)
		p.from = now.Add(settle)
	} else {
		p.after.add(touched)
		p.afterAt = now
	}
	return true
}

// gathered adds the changes whose time has come. What came meanwhile is gathered next, so each is settled, and none waits longer than twice that.
func (p *plan) gathered(due *scope, now time.Time) {
	for !p.from.IsZero() && !now.Before(p.from) {
		due.add(p.touched)
		p.touched, p.from = p.after, time.Time{}
		if !p.afterAt.IsZero() {
			p.from = p.afterAt.Add(settle)
		}
		p.after, p.afterAt = scope{}, time.Time{}
	}
}

// ready gives what is to be asked about now.
func (p *plan) ready(now time.Time) (out []*question) {
	if p.turned.IsZero() {
		p.turned = now
	}
	var due scope
	for _, name := range p.turns.passed(p.turned, now.Add(-overdue)) {
		s, _ := scopeOf(Change{Type: extensionType, Names: []string{name}})
		due.add(s)
	}
	p.turned = now.Add(-overdue)
	p.gathered(&due, now)
	p.meant(&due, func(q *question) {
		if q.denied == "" || q.due.IsZero() { // what was denied is asked about again in its time, not before
			p.ask(q, now)
		}
	})
	for q := range p.due {
		if !now.Before(q.due) {
			out = append(out, q)
		}
	}
	return out
}

// next is when ready has to be asked again; zero: when something happens.
func (p *plan) next() time.Time {
	next := p.turns.next(p.turned)
	if !next.IsZero() {
		next = next.Add(overdue)
	}
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	sooner(p.from)
	for q := range p.due {
		sooner(q.due)
	}
	return next
}

// answered takes what was said of a question. It says whether its tunnels are to be ended.
func (p *plan) answered(q *question, v envoylog.Answer, err error, now time.Time) bool {
	switch {
	case err != nil:
		p.ask(q, now.Add(retry))
	case !v.Denied:
		p.ask(q, time.Time{})
		q.denied = ""
	case q.denied == "":
		p.ask(q, now.Add(again))
		q.denied = v.Why
	default:
		p.ask(q, time.Time{})
		q.denied = v.Why
		return true
	}
	return false
}

// scope is what a change is about.
type scope struct {
	all        bool
	hosts      map[string]bool // as rows have them: a name, or *.SUFFIX
	namespaces map[string]bool // of clients
}

// mostNames is how many names a scope has; beyond it is everything.
const mostNames = 1024

func (s *scope) add(o scope) {
	s.all = s.all || o.all || len(s.hosts)+len(o.hosts) > mostNames
	if s.all {
		s.hosts, s.namespaces = nil, nil
		return
	}
	join(&s.hosts, o.hosts)
	join(&s.namespaces, o.namespaces)
}

func join(to *map[string]bool, from map[string]bool) {
	if *to == nil {
		*to = map[string]bool{}
	}
	for name := range from {
		(*to)[name] = true
	}
}
