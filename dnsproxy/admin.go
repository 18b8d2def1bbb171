package dnsproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/cache"
	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// maxDump is how many answers are shown at a time unless more are asked for.
const maxDump = 1000

// Kept is one answer in the cache, as it is shown.
type Kept struct {
	View     string   `json:"view"`
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Rcode    string   `json:"rcode"`
	Expires  int64    `json:"expiresInSeconds"` // below 0: it is stale since
	Filtered bool     `json:"filtered,omitempty"`
	Records  []string `json:"records,omitempty"`
}

// FlushName forgets the answers for host, in all views, and for all names below it if below. It returns how many.
func (s *Server) FlushName(host string, below bool) int {
	return s.cache.Drop(func(e *cache.Entry) bool { return matches(e, host, below) })
}

func matches(e *cache.Entry, host string, below bool) bool {
	name := nameOf(e)
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return name == host || below && (host == "" || strings.HasSuffix(name, "."+host))
}

// nameOf is the name that e answers, in text.
func nameOf(e *cache.Entry) string {
	question := e.Answer.Question() // ends with type and class
	return packet.Text([]byte(question[:len(question)-4]))
}

// Handler shows and clears what is known, for operators: serve it where only they can ask.
//
//	GET  /dns/cache?name=HOST[&below=true][&limit=N]   the answers kept, as JSON
//	POST /dns/flush[?name=HOST[&below=true]]           forgets them
//	GET  /dns/upstreams                                the resolvers, the one to be asked next first
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dns/cache", s.showCache)
	mux.HandleFunc("POST /dns/flush", s.flushCache)
	mux.HandleFunc("GET /dns/upstreams", s.showUpstreams)
	return mux
}

func (s *Server) showCache(w http.ResponseWriter, r *http.Request) {
	limit := maxDump
	if text := r.FormValue("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			http.Error(w, fmt.Sprintf("limit %q: must be a number from 1 on", text), http.StatusBadRequest)
			return
		}
	}
	host, named := r.FormValue("name"), r.Form.Has("name")
	kept := []Kept{}
	for _, e := range s.cache.All() {
		if !named || matches(e, host, r.FormValue("below") == "true") {
			kept = append(kept, s.show(e))
		}
	}
	slices.SortFunc(kept, func(a, b Kept) int {
		return strings.Compare(a.Name+" "+a.Type+" "+a.View, b.Name+" "+b.Type+" "+b.View)
	})
	reply(w, kept[:min(len(kept), limit)])
}

func (s *Server) show(e *cache.Entry) Kept {
	k := Kept{View: s.views[e.View()].Name, Filtered: e.Hidden, Expires: int64((e.Expires - s.now()) / time.Second)}
	question := []byte(e.Answer.Question())
	k.Name, k.Type = nameOf(e), dns.Type(uint16(question[len(question)-4])<<8|uint16(question[len(question)-3])).String()
	k.Rcode = dns.RcodeToString[e.Answer.Rcode()]
	var q packet.Query
	if q.Parse(append([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, question...)) != nil {
		return k
	}
	msg := new(dns.Msg)
	if msg.Unpack(e.Answer.Answer(nil, &q, packet.Age{})) == nil {
		for _, rr := range slices.Concat(msg.Answer, msg.Ns) {
			k.Records = append(k.Records, rr.String())
		}
	}
	return k
}

func (s *Server) flushCache(w http.ResponseWriter, r *http.Request) {
	host, below := r.FormValue("name"), r.FormValue("below") == "true"
	if !r.Form.Has("name") {
		host, below = "", true
	}
	reply(w, map[string]int{"flushed": s.FlushName(host, below)})
}

func (s *Server) showUpstreams(w http.ResponseWriter, _ *http.Request) {
	type server struct {
		Domain string  `json:"domain,omitempty"`
		Server string  `json:"server"`
		Ill    bool    `json:"ill"`
		Millis float64 `json:"smoothedMilliseconds,omitempty"`
	}
	all := []server{}
	for domain, client := range s.routes.all() {
		for _, status := range client.Status() {
			all = append(all, server{domain, status.Server.String(), status.Ill, float64(status.SRTT.Microseconds()) / 1000})
		}
	}
	reply(w, all)
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(value) // the client has gone
}
