package send

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/detect"
)

// webhook sends JSON: {"source":"sallyport","sent":TIME,"findings":[…]}.
type webhook struct{ *to }

// Send implements Sink.
func (w webhook) Send(ctx context.Context, findings []detect.Finding) error {
	return w.post(ctx, "", struct {
		Source   string           `json:"source"`
		Sent     time.Time        `json:"sent"`
		Findings []detect.Finding `json:"findings"`
	}{"sallyport", w.options.Now().UTC(), findings})
}

// slack sends one message for people, as Slack's incoming webhooks and what is like them take it.
type slack struct{ *to }

// slackLines is how many findings of one detection a message tells one by one.
const slackLines = 10

// Send implements Sink.
func (s slack) Send(ctx context.Context, findings []detect.Finding) error {
	return s.post(ctx, "", map[string]any{"text": chat(findings), "unfurl_links": false, "unfurl_media": false})
}

// chat groups findings by detection, in their order. (https://api.slack.com/reference/surfaces/formatting)
func chat(findings []detect.Finding) string {
	var order []string
	groups := map[string][]detect.Finding{}
	for _, f := range findings {
		if groups[f.Detection] == nil {
			order = append(order, f.Detection)
		}
		groups[f.Detection] = append(groups[f.Detection], f)
	}
	var b strings.Builder
	for _, id := range order {
		group := groups[id]
		fmt.Fprintf(&b, "*%s* (%s, %v): %d\n", plain(group[0].Title), id, group[0].Severity, len(group))
		for i, f := range group {
			if i == slackLines {
				fmt.Fprintf(&b, "… and %d more\n", len(group)-i)
				break
			}
			what := "`" + plain(f.Who()) + "`"
			if f.Host != "" {
				what += " → `" + plain(f.Host) + "`"
			}
			fmt.Fprintf(&b, "• %s, %d times, the last %s\n", what, f.Count, f.Last.UTC().Format("2006-01-02 15:04 UTC"))
		}
	}
	return b.String()
}

// plain is a text in which a chat finds neither links, nor people, nor the end of code.
func plain(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "'").Replace(visible.Text(text))
}

// alertmanager sends alerts to Alertmanager's v2 API; its URL is that of Alertmanager itself. It groups, and sends on, by what it is told.
type alertmanager struct{ *to }

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// Send implements Sink.
func (a alertmanager) Send(ctx context.Context, findings []detect.Finding) error {
	alerts := make([]alert, len(findings))
	for i := range findings {
		alerts[i] = a.alert(&findings[i])
	}
	return a.post(ctx, "api/v2/alerts", alerts)
}

func (a alertmanager) alert(f *detect.Finding) alert {
	evidence, _ := json.Marshal(f.Evidence) // of what a SELECT gives
	out := alert{
		Labels: map[string]string{
			"alertname": f.Detection, "source": "sallyport", "severity": f.Severity.String(), "namespace": f.Namespace, "workload": f.Workload, "host": f.Host,
		},
		Annotations: map[string]string{"summary": f.Sentence(), "evidence": string(evidence), "id": f.ID},
		StartsAt:    f.First.UTC(), EndsAt: a.options.Now().UTC().Add(a.options.Repeat),
	}
	if f.Port != 0 {
		out.Labels["port"] = strconv.Itoa(int(f.Port))
	}
	for name, value := range maps.Clone(out.Labels) {
		if out.Labels[name] = strings.ToValidUTF8(value, "\uFFFD"); value == "" {
			delete(out.Labels, name)
		}
	}
	if len(f.Attack) > 0 {
		out.Annotations["attack"] = strings.Join(slices.Clone(f.Attack), ", ")
	}
	return out
}
