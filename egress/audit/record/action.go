package record

import "cmp"

// Deed says in words what was done, by whom, and why.
func (r *Record) Deed() string {
	by := r.Actor
	switch {
	case by == "":
		by = "whoever reached the page, where nobody logs in"
	case r.ActorBy == BySystem:
		by += ", by the word of the machine that called"
	}
	text := cmp.Or(r.Action, "something was done") + " by " + by
	if r.Reason != "" {
		text += "; " + r.Reason
	}
	return text
}
