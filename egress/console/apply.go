package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/review"
)

// appliedWithin is how long the API server may take; others wait for the configuration meanwhile.
const appliedWithin = 8 * time.Second

var (
	errNobodysRights = errors.New("nobody logs in here, so there are no rights of yours to apply objects with: kubectl apply -f - has yours")
	errNoToken       = errors.New("you logged in without a token that the API server takes, so there are no rights of yours to apply objects with: kubectl apply -f - has yours")
)

// applies says why the page cannot apply what the reader approves.
func (h *handler) applies(ctx context.Context) error {
	token, _ := ctx.Value(tokenKey{}).(string)
	switch {
	case h.Apply == nil || h.gate == nil:
		return errNobodysRights
	case token == "":
		return errNoToken
	}
	return nil
}

// approve makes an item's objects, and finds out whether they can be applied where they are to be: by the reader's token, and not where lint refuses them.
func (l looked) approve(ctx context.Context, h *handler, i *review.Item, apply bool, p *reviewPage) (Prepared, error) {
	changes, text, err := l.approval(i)
	p.YAML = string(text)
	if err != nil || !apply {
		return nil, err
	}
	var more []config.Object
	for _, c := range changes {
		more = append(more, *c.After)
	}
	for _, x := range l.may.objections(l.may.config.objects(), more, l.now) {
		if x.Severity == admission.Error {
			return nil, fmt.Errorf("it is not applied: %s", l.may.veil(x.String()))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, appliedWithin)
	defer cancel()
	token, _ := ctx.Value(tokenKey{}).(string)
	ready, err := h.Apply(ctx, token, changes)
	if err != nil {
		return nil, fmt.Errorf("it is not applied, and not approved: %w. Approve without applying shows the objects, for somebody who may", err)
	}
	return ready, nil
}

// apply records what is about to be applied, and applies it.
func (h *handler) apply(ctx context.Context, r *http.Request, i *review.Item, ready Prepared) error {
	if err := h.decided(ctx, r, i, actions.Applied, ready.String()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, appliedWithin)
	defer cancel()
	if err := ready.Apply(ctx); err != nil {
		return wrong{fmt.Errorf("it is in the log that %s is approved and applied, and it is not: %w", i.ID, err)}
	}
	h.Logger.Info("console: objects are applied", "objects", ready.String(), "by", readerOf(ctx).Name)
	return nil
}
