package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/suggest"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// word is what somebody says about an item.
type word struct {
	ID, Reason string
	Digest     string // of the changes that they were shown, which are to be applied
	action     string
	apply      bool // what is approved
}

// word reads a form.
func (h *handler) word(ctx context.Context, r *http.Request) (w word, err error) {
	w = word{ID: r.PostForm.Get("id"), Reason: r.PostForm.Get("reason"), Digest: r.PostForm.Get("digest"), action: r.PostForm.Get("action")}
	switch {
	case !review.IsID(w.ID):
		return w, errors.New("id: it is no item's")
	case review.CheckReason(w.Reason) != nil:
		return w, fmt.Errorf("reason: %w", review.CheckReason(w.Reason))
	case w.action == review.StateRejected && w.Reason == "":
		return w, errors.New("reason: say why it is rejected, for those who come after")
	}
	switch w.action {
	case review.StateApproved, review.StateRejected, review.StateSnoozed:
	case actions.Applied:
		w.action, w.apply = review.StateApproved, true
		return w, h.applies(ctx)
	default:
		return w, errors.New("action: it is approved, applied, rejected or snoozed")
	}
	return w, nil
}

// made is what a word is about, and what comes of it.
type made struct {
	looked
	said    word
	item    *review.Item
	changes []suggest.Change // of an approval
	yaml    string           // the same
}

// foresee finds out what a word is about, and what comes of it. of is the registry that an approval's objects are tried on.
func (h *handler) foresee(ctx context.Context, said word, c *Config, of *registry.Registry) (m made, err error) {
	m.said = said
	if m.looked, err = h.look(ctx, c, of); err != nil {
		return m, err
	}
	decisions, err := m.files.Read()
	if err != nil {
		return m, err
	}
	if m.item, err = m.find(decisions); err != nil || said.action != review.StateApproved {
		return m, err
	}
	whole, err := h.seenOf(ctx, m.item.Namespace)
	if err != nil {
		return m, err
	}
	changes, text, err := m.approval(m.item, whole)
	if err != nil {
		return m, wrong{err}
	}
	m.changes, m.yaml, m.inForce.Registry = changes, string(text), nil // the registry is lent no longer than this
	if said.apply {
		err = m.refused()
	}
	return m, err
}

// find gives the item, if a word may be said about it after so many decisions.
func (m made) find(decisions []review.Decision) (*review.Item, error) {
	i, err := review.Find(review.Items(m.waiting, m.may.decisions(decisions), m.now), m.said.ID, false)
	if err != nil {
		return nil, wrong{err}
	}
	return i, nil
}

// take records a word, does it, and keeps it. What is to be applied and was not shown is shown, and nothing is recorded.
func (h *handler) take(ctx context.Context, r *http.Request, m made) (v view, err error) {
	p := reviewPage{Said: m.said.ID + " is " + m.said.action + ".", YAML: m.yaml, Applied: m.said.apply}
	if err := h.applies(ctx); err != nil {
		p.WhyNot = err.Error()
	}
	p.Applies = p.WhyNot == ""
	var ready Prepared
	if m.said.apply {
		shown := m.said.Digest
		if m.said.Digest, err = review.Digest(m.changes); err != nil {
			return v, err
		}
		if shown != "" && shown != m.said.Digest {
			return v, wrong{fmt.Errorf("what would be applied for %s is not what you were shown: the configuration or the log changed. Nothing is approved, and nothing applied: look again", m.said.ID)}
		}
		if ready, err = h.prepare(ctx, m.changes); err != nil {
			return v, wrong{err}
		}
		if shown == "" {
			p.Said, p.Applied, p.Asks = "", false, &m.said
			return m.page(p)
		}
	}
	if err := h.keep(ctx, r, m, ready); err != nil {
		return v, err
	}
	return m.page(p)
}

// keep records the word, applies what is ready, and keeps the decision. From when it is recorded on it goes on without who asked for it.
func (h *handler) keep(ctx context.Context, r *http.Request, m made, ready Prepared) error {
	by, until, applied := cmp.Or(readerOf(ctx).Name, byPage), time.Time{}, false
	if m.said.action == review.StateSnoozed {
		until = m.now.Add(7 * 24 * time.Hour).UTC().Truncate(time.Second)
	}
	err := m.files.Decide(ctx, func(before []review.Decision) (review.Decision, error) {
		i, err := m.find(before)
		if err != nil {
			return review.Decision{}, err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appliedWithin)
		defer cancel()
		if err := h.decided(ctx, r, i, m.said.action, m.said.Reason); err != nil {
			return review.Decision{}, err
		}
		if ready != nil {
			if err := h.apply(ctx, r, i, ready); err != nil {
				return review.Decision{}, err
			}
			applied = true
		}
		return i.Word(m.said.action, by, m.said.Reason, m.now, until), nil
	})
	switch {
	case err == nil:
		h.Logger.Info("console: a decision", "id", m.said.ID, "action", m.said.action, "by", by, "from", r.RemoteAddr)
		return nil
	case applied:
		h.Logger.Error("console: objects are applied, and the decision could not be kept", "id", m.said.ID, "objects", ready.String(), "err", err)
		return halfway{fmt.Errorf("%s is in the log as approved, and its objects are applied: %s. That it is decided could not be kept beside the log; the server's log says why", m.said.ID, ready)}
	}
	return err
}
