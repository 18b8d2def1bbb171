package detect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// What rules may need beside the log.
const (
	InputFeed    = "feed"
	InputRules   = "rules"
	InputProxies = "proxies"
)

// given are the $names that every rule has.
var given = []string{"since", "until", "past", "domain", InputFeed, InputRules, InputProxies}

// domain is what $domain stands for: the registrable domain of the column host, near enough for grouping. Names with a country's second
// level (co.uk) have three labels, addresses are left alone. (The public suffix list is no table of the log's.)
const domain = `(CASE WHEN regexp_matches(host, '^[0-9.]+$|:') THEN host ELSE coalesce(nullif(` +
	`regexp_extract(host, '([^.]+\.)?(com|co|org|net|gov|edu|ac)\.[a-z]{2}$|[^.]+\.[^.]+$'), ''), host) END)`

// identity is who sent the traffic: the service account; what made the pod, where the account is nobody's in particular; else what
// is known.
const identity = `CASE WHEN coalesce(service_account, '') IN ('', 'default') AND coalesce(workload, '') <> '' ` +
	`THEN regexp_replace(workload, '(-[bcdfghjklmnpqrstvwxz2456789]{6,10}|-[0-9]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}$|-[0-9]+$', '') ` +
	`ELSE coalesce(nullif(service_account, ''), nullif(principal, ''), regexp_replace(coalesce(source, ''), ':[0-9]+$', '')) END`

// mostBytes is how many a record counts for in a rule: 1 PiB. Proxies say what they like, and a sum that does not fit would end the rule, for everybody.
const mostBytes = 1 << 50

// bounded is a column of bytes that is no more than that.
func bounded(column string) string {
	return fmt.Sprintf("least(coalesce(%s, 0), %d)::BIGINT", column, mostBytes)
}

// view selects outgoing traffic between two times: the columns of records, with host in lower case and without a last dot, workload as
// identity says, pod, and bytes_out and bytes_in as the workload sees them.
func view(from, to time.Time) string {
	return "(SELECT * REPLACE (rtrim(lower(host), '.') AS host, " + identity + " AS workload, " + bounded("bytes_sent") + " AS bytes_sent), workload AS pod, " +
		bounded("bytes_received") + " AS bytes_out, " + bounded("bytes_sent") + " AS bytes_in FROM " + store.Table + " WHERE time >= " + query.Instant(from) + " AND time < " + query.Instant(to) +
		" AND " + schema.Traffic + " AND coalesce(direction, 'outbound') = 'outbound' AND path <> 'mesh')"
}

// statement writes a rule as one SELECT of so many rows of each namespace at most, and in turn: what one of them does shall not push out what another one
// has. All that comes before the file's text is on the text's first line, so that
// the line that DuckDB names in a message is the file's.
func (r *Rule) statement(window Window, in Inputs, set map[string]string, rows int) (string, error) {
	values := map[string]string{
		"since": query.Instant(window.Since), "until": query.Instant(window.Until), "past": query.Instant(window.Past), "domain": domain,
		InputFeed: in.feed(), InputRules: in.rules(), InputProxies: in.proxies(),
	}
	for _, p := range r.Params {
		value, ok := set[p.Name]
		if !ok {
			value = p.Default
		}
		literal, err := p.literal(value)
		if err != nil {
			return "", err
		}
		values[p.Name] = literal
	}
	text, err := substitute(r.text, values)
	if err != nil {
		return "", err
	}
	text = strings.TrimRight(text, "; \t\r\n")
	const place = "row_number() OVER (PARTITION BY namespace ORDER BY count DESC, workload, host)"
	return "WITH traffic AS NOT MATERIALIZED " + view(window.Since, window.Until) + ", past AS NOT MATERIALIZED " + view(window.Past, window.Since) +
		" SELECT * FROM ( " + text + "\n) QUALIFY " + place + " <= " + strconv.Itoa(rows) +
		" ORDER BY " + place + " LIMIT " + strconv.Itoa(MaxFindings), nil
}

// substitute puts values in the place of $names, where these are neither in a text nor in a comment.
func substitute(text string, values map[string]string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); {
		end := skip(text[i:])
		if end > 0 {
			b.WriteString(text[i : i+end])
			i += end
			continue
		}
		name := nameAt(text[i:])
		if name == "" {
			b.WriteByte(text[i])
			i++
			continue
		}
		value, known := values[name]
		if !known {
			return "", fmt.Errorf("line %d: there is no $%s; there are $%s", 1+strings.Count(text[:i], "\n"), name,
				strings.Join(slices.Sorted(maps.Keys(values)), ", $"))
		}
		b.WriteString(value)
		i += 1 + len(name)
	}
	return b.String(), nil
}

// skip is how long the text, quoted name or comment is that s begins with; 0 where it begins with none.
func skip(s string) int {
	for _, quoted := range [...]struct{ open, end string }{{"'", "'"}, {`"`, `"`}, {"--", "\n"}, {"/*", "*/"}} {
		rest, is := strings.CutPrefix(s, quoted.open)
		if !is {
			continue
		}
		if n := strings.Index(rest, quoted.end); n >= 0 {
			return len(quoted.open) + n + len(quoted.end)
		}
		return len(s)
	}
	return 0
}

// nameAt is the name in the $name that s begins with.
func nameAt(s string) string {
	rest, is := strings.CutPrefix(s, "$")
	if !is {
		return ""
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
	if end < 0 {
		end = len(rest)
	}
	return rest[:end]
}
