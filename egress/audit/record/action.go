package record

import "cmp"

// What is said of an action, in words.
const (
	SomethingDone = "something was done"
	NobodyKnown   = "whoever reached the page, where nobody logs in"
	ByItsWord     = ", by the word of the machine that called"
	// NotLoggedIn stands for a name where there is none.
	NotLoggedIn = "nobody logged in"
)

// Deed says in words what was done, by whom, and why.
func (r *Record) Deed() string {
	by := r.Actor
	switch {
	case by == "":
		by = NobodyKnown
	case r.ActorBy == BySystem:
		by += ByItsWord
	}
	text := cmp.Or(r.Action, SomethingDone) + " by " + by
	if r.Reason != "" {
		text += "; " + r.Reason
	}
	return text
}
