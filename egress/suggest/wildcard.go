package suggest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/host"
)

// sharedHosting are domains below which companies give names to whoever pays, and that the list of public suffixes does not have, or has
// for some of their names only. No wildcard is suggested at or below them.
var sharedHosting = []string{
	"akamai.net", "akamaiedge.net", "akamaihd.net", "akamaized.net", "algolia.net", "algolianet.com", "aliyuncs.com", "amazonaws.com", "amazonaws.com.cn", "atlassian.net",
	"auth0.com", "azure.com", "azure.net", "azurecr.io", "azureedge.net", "azurefd.net", "b-cdn.net", "backblazeb2.com", "bamboohr.com", "bcebos.com", "bore.pub",
	"burpcollaborator.net", "cachefly.net", "cdn77.org", "cloudamqp.com", "cloudflareaccess.com", "cloudflarestorage.com", "cloudfront.net", "cloudwaysapps.com",
	"cockroachlabs.cloud", "confluent.cloud", "digitaloceanspaces.com", "dynatrace.com", "edgecastcdn.net", "edgekey.net", "edgesuite.net", "elastic-cloud.com", "es.io",
	"exo.io", "fastly.net", "fastlylb.net", "firebaseio.com", "force.com", "found.io", "freshdesk.com", "freshservice.com", "gcdn.co", "github.dev", "github.io",
	"gitlab.io", "gitpod.io", "glitch.me", "godaddysites.com", "googleapis.com", "googleusercontent.com", "gradio.live", "grafana.net", "hashnode.dev", "hostinger.com",
	"hostingersite.com", "hs-sites.com", "hubspot.com", "hubspotpagebuilder.com", "huggingface.cloud", "hwcdn.net", "imgix.net", "impervadns.net", "incapdns.net",
	"intercom.io", "jimdosite.com", "jira.com", "kinsta.cloud", "koyeb.app", "kxcdn.com", "lhr.life", "linodeobjects.com", "list-manage.com", "lldns.net", "llnwd.net",
	"loca.lt", "medium.com", "microsoftonline.com", "mktoweb.com", "modal.run", "mongodb.net", "my.salesforce.com", "myqcloud.com", "myshopify.com", "myworkday.com",
	"neon.tech", "netsuite.com", "oast.fun", "oastify.com", "okta.com", "on.aws", "ondigitalocean.app", "onelogin.com", "oraclecloud.com", "ovh.net", "pagerduty.com",
	"pinecone.io", "pingone.com", "pipedream.net", "psdb.cloud", "qdrant.io", "qiniucdn.com", "qualtrics.com", "quic.cloud", "quickbase.com", "rackcdn.com", "railway.app",
	"readme.io", "redislabs.com", "retool.com", "salesforce-sites.com", "scalingo.io", "scw.cloud", "sentry.io", "serveo.net", "service-now.com", "sharepoint.com",
	"site.com", "slack.com", "snowflakecomputing.com", "sourceforge.io", "splunkcloud.com", "squarespace.com", "stackpathcdn.com", "statuspage.io", "strikingly.com",
	"substack.com", "supabase.co", "surge.sh", "trafficmanager.net", "tumblr.com", "typeform.com", "typesense.net", "upcloudobjects.com", "upstash.io", "wasabisys.com",
	"weaviate.network", "webhook.site", "weebly.com", "windows.net", "wordpress.com", "workers.dev", "wpengine.com", "wscdns.com", "your-objectstorage.com", "zendesk.com",
	"zohosites.com", "zoom.us",
}

// wildcard gives the pattern for names right below a domain; "" where none is suggested.
func wildcard(domain string) string {
	n := host.Name("*." + domain)
	if _, err := publicsuffix.EffectiveTLDPlusOne(domain); err != nil || admission.SharedSuffix(n) != "" {
		return ""
	}
	if slices.ContainsFunc(sharedHosting, func(s string) bool {
		return domain == s || strings.HasSuffix(domain, "."+s) || strings.HasSuffix(s, "."+domain)
	}) {
		return ""
	}
	return string(n)
}

// siblingsOf gives the pattern that would stand for a name among its siblings; "" for none.
func siblingsOf(name string) string {
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	_, domain, ok := strings.Cut(name, ".")
	if !ok {
		return ""
	}
	return wildcard(domain)
}

// widen puts a wildcard in the place of names that are so many, right below one domain, used by the same namespaces, and alike in their ports.
func (w *world) widen(needs map[needID]*need, siblings int) {
	if siblings < 1 {
		return
	}
	groups := map[string][]needID{}
	for id, n := range needs {
		pattern := siblingsOf(id.host)
		if pattern == "" || id.extend != (config.Key{}) || slices.Contains(slices.Collect(maps.Values(n.ports)), "TCP") {
			continue
		}
		key := pattern + " " + strings.Join(slices.Sorted(maps.Keys(n.in)), " ")
		groups[key] = append(groups[key], id)
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		pattern, _, _ := strings.Cut(key, " ")
		if ids := groups[key]; len(ids) >= siblings {
			slices.SortFunc(ids, func(a, b needID) int { return strings.Compare(a.host, b.host) })
			w.replace(needs, ids, pattern)
		}
	}
}

func (w *world) replace(needs map[needID]*need, ids []needID, pattern string) {
	all := &need{host: pattern, ports: map[uint32]string{}, in: needs[ids[0]].in}
	for _, id := range ids {
		n := needs[id]
		for port, protocol := range n.ports {
			if was := all.ports[port]; was != "" && was != protocol {
				return // they are not alike
			}
			all.ports[port] = protocol
		}
		all.flows = append(all.flows, n.flows...)
		all.wild = append(all.wild, id.host)
		all.guess = all.guess || n.guess
	}
	if at := (needID{host: pattern}); needs[at] == nil && !w.hidesInside(pattern) {
		for _, id := range ids {
			delete(needs, id)
		}
		needs[at] = all
	}
}

// hidesInside says whether a name below was left out: it may be inside.
func (w *world) hidesInside(pattern string) bool {
	return slices.ContainsFunc(w.result.LeftOut, func(l LeftOut) bool { return host.Matches(host.Name(pattern), host.Name(l.Host)) })
}

// wildNote says what a wildcard admits beside what was seen.
func wildNote(pattern string, names []string) string {
	shown := strings.Join(names[:min(len(names), 10)], ", ")
	if more := len(names) - 10; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s is for %d names that were seen: %s. It also admits every other name below %s, of any depth, also those that somebody else gets hold of; --siblings 0 lists names instead",
		pattern, len(names), shown, pattern[2:])
}
