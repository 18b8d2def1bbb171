package console

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
)

// Options of the pages.
type Options struct {
	DB *sql.DB // needs to be for reading only
	// Config gives the configuration in force, to each page that asks; nil where it is not known. The pages about it say so then.
	Config func(ctx context.Context) (*Config, error)
	// Decisions is the folder of what reviewers decided; "" where they decide elsewhere.
	Decisions string
	// Act records what somebody does, on disk when it returns; what cannot be recorded is not done. nil: nothing is recorded.
	Act func(ctx context.Context, r record.Record) error
	// Apply finds out whether the API server would take an approval's objects from who has a token, and says how they are applied then. No other
	// rights are used. nil: the pages apply nothing.
	Apply func(ctx context.Context, token string, changes []suggest.Change) (Prepared, error)
	// Found gives what detections found when they looked last; nil where nothing looks.
	Found func() *detect.Report
	// Connected are the proxies that controllers say are connected; some is false where none says so. nil: nobody knows.
	Connected func() (proxies []presence.Proxy, some bool)
	// Notice says what readers have to know about the log itself: that a part of it may be elsewhere. "" or nil: nothing.
	Notice func() string
	// Login, if set, lets nobody in who does not log in, and shows each what they may read. Its Namespaces are the log's.
	Login  *login.Options
	Logger *slog.Logger
	Now    func() time.Time

	answerTime, takeTime time.Duration // 15 s and 2 min where nothing is said
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.answerTime == 0 {
		o.answerTime = answerTime
	}
	if o.takeTime == 0 {
		o.takeTime = takeTime
	}
	if o.Act == nil {
		o.Act = func(context.Context, record.Record) error { return nil }
	}
	return o
}

// Prepared are objects that the API server would take.
type Prepared interface {
	Apply(ctx context.Context) error
	String() string // their names
}

// Bounds of one answer.
const (
	usualSince  = "24h" // where the filter does not say
	answerTime  = 15 * time.Second
	atOnce      = 3                // pages that are made at the same time; the others wait
	atOnceEach  = 2                // of one reader who logged in, so that others have their turn
	mostReaders = 1_000            // whose pages are counted
	filesAtOnce = 6                // downloads; who reads one slowly keeps others from one of them, and from no page
	filesEach   = 1                // of one reader who logged in
	mostTexts   = 48 << 20         // bytes of text in a Parquet file that is made here: it takes as much room meanwhile
	mostPacked  = 24 << 20         // bytes of another one, packed; the chart's /tmp has room for as many as there can be
	takeTime    = 2 * time.Minute  // in which a reader of a file takes some of it
	mostTaking  = 30 * time.Minute // and all of it
	chartSlices = 96               // of a chart, or one more
	mostVain    = 1_000            // questions that nothing but roll-ups answers
	mostBars    = 1_000            // of a chart of centuries
	perPage     = 100              // records
	mostPages   = 100              // that can be turned
	mostGroups  = 50               // of what is added up
	shortList   = 8                // of a list beside others
	mostFlows   = 60               // of a picture
	mostRecords = 50_000           // of a download
)

// handler makes the pages.
type handler struct {
	Options
	turns    semaphore                              // one for each page that is being made
	meshes   semaphore                              // one for a page that asks what is in force about all that was seen
	each     turnsEach                              // the same, of each reader
	files    semaphore                              // one for each download
	fetching turnsEach                              // the same, of each reader
	columns  semaphore                              // one for a Parquet file that is being made
	evidence *lately[*seen.Log]                     // for as long as somebody goes through a list
	whole    *lru.Cache[string, *lately[*seen.Log]] // of namespaces, likewise
	spaces   *lately[[]string]                      // the namespaces of the log
	vain     *lru.Cache[string, struct{}]           // see query.Sums
	gate     *login.Gate                            // nil where nobody logs in
}

//go:embed static
var static embed.FS

// newHandler makes the routes; allowed decides about the Host header.
func newHandler(o Options, allowed func(host string) bool) http.Handler {
	h := &handler{
		Options: o.withDefaults(), turns: make(semaphore, atOnce), each: newTurnsEach(atOnceEach),
		files: make(semaphore, filesAtOnce), fetching: newTurnsEach(filesEach), columns: make(semaphore, 1), meshes: make(semaphore, 1),
		evidence: newLately[*seen.Log](), spaces: newLately[[]string](),
	}
	var err error
	if h.vain, err = lru.New[string, struct{}](mostVain); err != nil {
		panic(err) // the size is a constant
	}
	if h.whole, err = lru.New[string, *lately[*seen.Log]](mostWhole); err != nil {
		panic(err) // likewise
	}
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(files)))
	for path, page := range h.pages() {
		mux.Handle(path, h.serve(path, page))
	}
	for format := range downloads {
		mux.HandleFunc("GET /log."+format, h.download(format))
	}
	if o.Login == nil {
		return guard(mux, allowed)
	}
	who := *o.Login
	who.Namespaces, who.Logger, who.Now, who.Entered = h.namespaces, h.Logger, h.Now, h.entered
	h.gate = login.New(who)
	h.logins(mux)
	return guard(h.known(mux), allowed)
}

// about are the pages about the configuration, by their routes: whether they ask it about all that was seen.
var about = map[string]bool{
	"GET /explain": false, "GET /policies": false, "GET /simulate": false,
	"GET /review": true, "POST /review": true, "POST /simulate": true,
}

// pages are what there is, by their routes.
func (h *handler) pages() map[string]page {
	return map[string]page{
		"GET /{$}":       h.overview,
		"GET /log":       h.logPage,
		"GET /record":    h.recordPage,
		"GET /host":      h.hostPage,
		"GET /workload":  h.workloadPage,
		"GET /flows":     h.flowsPage,
		"GET /explain":   h.explainPage,
		"GET /policies":  h.policiesPage,
		"GET /review":    h.reviewPage,
		"POST /review":   h.decide,
		"GET /simulate":  h.simulatePage,
		"POST /simulate": h.simulate,
		"GET /findings":  h.findingsPage,
	}
}
