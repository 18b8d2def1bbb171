package console

import (
	"context"
	"net/http"

	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/review"
)

// did is the record of what a reader does by a page.
func (h *handler) did(ctx context.Context, r *http.Request, action string) record.Record {
	who := readerOf(ctx)
	return record.Record{Time: h.Now(), Actor: who.Name, ActorBy: who.By, Action: action, Reporter: record.ReporterConsole, URLPath: r.URL.Path, Source: r.RemoteAddr}
}

// entered records a login.
func (h *handler) entered(ctx context.Context, r *http.Request, who login.Reader) error {
	return h.Act(ctx, h.did(context.WithValue(ctx, readerKey{}, who), r, actions.Login))
}

// decided records a word about an item.
func (h *handler) decided(ctx context.Context, r *http.Request, i *review.Item, action, reason string) error {
	x := h.did(ctx, r, action)
	x.Workload, x.Host, x.Port, x.Reason = record.Workload{Namespace: i.Namespace, ServiceAccount: i.Workload}, i.Host, i.Port, reason
	return h.Act(ctx, x)
}
