package detect

import (
	"context"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// unheard are those of the proxies that are connected of which the log has nothing, since the window's past began: of each namespace in turn. Only these go into a
// statement.
func unheard(ctx context.Context, log Log, window Window, proxies []presence.Proxy) (out []presence.Proxy, err error) {
	left := make(map[string]presence.Proxy, len(proxies))
	for _, p := range proxies {
		left[p.ID] = p
	}
	statement := "SELECT DISTINCT proxy FROM " + store.Table + " WHERE time >= " + query.Instant(window.Past)
	if err := log.SQL(ctx, statement, rows(func(cells []any) error {
		id, _ := cells[0].(string)
		delete(left, id)
		return nil
	})); err != nil {
		return nil, err
	}
	of := map[string][]presence.Proxy{}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		ns := left[id].Namespace()
		of[ns] = append(of[ns], left[id])
	}
	inTurn(of, MaxFindings, func(p presence.Proxy) bool {
		out = append(out, p)
		return true
	})
	return out, nil
}

// inTurn hands over the first of each namespace's, then the second of each, and so on, until so many were taken; take says whether one was.
func inTurn[T any](of map[string][]T, most int, take func(T) bool) {
	namespaces := slices.Sorted(maps.Keys(of))
	for i, more := 0, true; more; i++ {
		more = false
		for _, ns := range namespaces {
			if i >= len(of[ns]) {
				continue
			}
			if most == 0 {
				return
			}
			if more = true; take(of[ns][i]) {
				most--
			}
		}
	}
}
