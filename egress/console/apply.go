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
	"github.com/sallyport/sallyport/egress/suggest"
)

// appliedWithin is how long the API server may take, to try objects and then to take them; others who decide wait meanwhile.
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

// refused says that lint would refuse the objects among what the reader sees.
func (m made) refused() error {
	var more []config.Object
	for _, c := range m.changes {
		more = append(more, *c.After)
	}
	for _, x := range m.may.objections(m.may.config.objects(), more, m.now) {
		if x.Severity == admission.Error {
			return wrong{fmt.Errorf("it is not applied: %s", m.may.veil(x.String()))}
		}
	}
	return nil
}

// prepare finds out whether the API server would take the objects by the reader's token.
func (h *handler) prepare(ctx context.Context, changes []suggest.Change) (Prepared, error) {
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
	if err := ready.Apply(ctx); err != nil {
		h.Logger.Warn("console: objects are not applied as they were to be", "id", i.ID, "objects", ready.String(), "err", err)
		return wrong{fmt.Errorf("it is in the log that %s is approved and applied, and applying it failed: %w", i.ID, err)}
	}
	h.Logger.Info("console: objects are applied", "objects", ready.String(), "by", readerOf(ctx).Name)
	return nil
}
