package detect

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// Bounds of a feed.
const (
	maxFeedBytes   = 64 << 20
	maxFeedDomains = 1_000_000
	maxHits        = MaxFindings // hosts of one run
	maxHitsOfOne   = 200         // of one namespace, so that its names do not take others' place
)

// Feed is a list of domains; each stands for itself and all names below it.
type Feed struct{ domains map[string]struct{} }

// LoadFeed reads a file.
func LoadFeed(file string) (*Feed, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	feed, err := ReadFeed(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return feed, nil
}

// ReadFeed reads domains, one a line; what follows a # is a comment. As in a hosts file, an address may stand before the name.
func ReadFeed(from io.Reader) (*Feed, error) {
	feed := &Feed{map[string]struct{}{}}
	counted := &io.LimitedReader{R: from, N: maxFeedBytes + 1}
	lines := bufio.NewScanner(counted)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if len(fields) == 2 && (fields[0] == "0.0.0.0" || fields[0] == "127.0.0.1") {
			fields = fields[1:]
		}
		name := strings.Trim(strings.TrimPrefix(strings.ToLower(fields[0]), "*."), ".")
		if len(fields) != 1 || name == "" || len(name) > 253 || strings.ContainsAny(name, "/:*") {
			return nil, fmt.Errorf("line %d: %.80q is no domain: write one a line, like evil.test", n, lines.Text())
		}
		if len(feed.domains) >= maxFeedDomains {
			return nil, fmt.Errorf("line %d: a feed has %d domains at most", n, maxFeedDomains)
		}
		feed.domains[name] = struct{}{}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if counted.N <= 0 {
		return nil, fmt.Errorf("a feed has %d MiB at most", maxFeedBytes>>20)
	}
	return feed, nil
}

// Match is the entry that stands for a host; "" when none does.
func (f *Feed) Match(host string) string {
	for name := host; name != ""; {
		if _, is := f.domains[name]; is {
			return name
		}
		_, rest, more := strings.Cut(name, ".")
		if !more {
			return ""
		}
		name = rest
	}
	return ""
}

// match finds the hosts of the log that the feed names: of each namespace in turn. The feed stays here: only what both have goes into a statement.
func (f *Feed) match(ctx context.Context, log Log, window Window) (hits []hit, err error) {
	of := map[string][]hit{}
	statement := "SELECT DISTINCT namespace, rtrim(lower(host), '.') AS host FROM " + store.Table + " WHERE " + schema.Traffic + " AND host <> '' AND time >= " +
		query.Instant(window.Since) + " AND time < " + query.Instant(window.Until)
	err = log.SQL(ctx, statement, rows(func(cells []any) error {
		namespace, _ := cells[0].(string)
		host, _ := cells[1].(string)
		if entry := f.Match(host); entry != "" && len(of[namespace]) < maxHitsOfOne {
			of[namespace] = append(of[namespace], hit{host, entry})
		}
		return nil
	}))
	taken := map[string]bool{}
	inTurn(of, maxHits, func(h hit) bool {
		if taken[h.host] {
			return false
		}
		taken[h.host] = true
		hits = append(hits, h)
		return true
	})
	return hits, err
}

// rows is a query.RowSink that does not look at the columns' names.
type rows func(cells []any) error

// Columns implements query.RowSink.
func (rows) Columns([]string) error { return nil }

// Row implements query.RowSink.
func (f rows) Row(cells []any) error { return f(cells) }
