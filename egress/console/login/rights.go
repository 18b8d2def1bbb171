package login

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/validate/content"
)

// atOnce is how many questions of one reader are open at the same time.
const atOnce = 8

// ask asks about everything first, and then about each namespace that the log has.
func (g *Gate) ask(ctx context.Context, u User, who digest) (Reader, error) {
	reader := Reader{Name: u.Name}
	var err error
	if reader.All, err = g.Cluster.May(ctx, u, ""); err != nil || reader.All {
		return reader, err
	}
	there, err := g.Namespaces(ctx)
	if err != nil {
		return reader, fmt.Errorf("which namespaces the log has: %w", err)
	}
	// Names in the log are what proxies told: what cannot be a namespace is nobody's.
	there = slices.DeleteFunc(slices.Clone(there), func(name string) bool { return len(content.IsDNS1123Label(name)) > 0 })
	if len(there) > Most {
		return reader, fmt.Errorf("the log has records of %d namespaces: of more than %d only those may read who may read all", len(there), Most)
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range there {
		group.Go(func() error {
			may, err := g.mayRead(ctx, u, question{who, name})
			if may && err == nil {
				mu.Lock()
				defer mu.Unlock()
				reader.Namespaces = append(reader.Namespaces, name)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Reader{}, err
	}
	slices.Sort(reader.Namespaces)
	return reader, nil
}

// mayRead asks about one namespace; an answer holds for a minute, also where those about others did not come.
func (g *Gate) mayRead(ctx context.Context, u User, q question) (bool, error) {
	if may, known := g.may.get(q, g.Now()); known {
		return may, nil
	}
	may, err := g.Cluster.May(ctx, u, q.namespace)
	if err == nil {
		g.may.add(q, may, g.Now())
	}
	return may, err
}
