package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/whole"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// bytesEntry registers a host's ports with names of protocols.
const bytesEntry = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: default, annotations: {%[2]s}}
spec:
  hosts: [%[1]s]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
`

// bytesEntries registers hosts that leave by the gateway, and others alike that leave the pod straight. Requests have hosts
// of their own: a gateway speaks TLS for them where the host has a port for that.
func bytesEntries() string {
	var all strings.Builder
	for path, annotation := range map[string]string{"gateway": "", "direct": "egress.sallyport.io/gateway: direct"} {
		fmt.Fprintf(&all, bytesEntry, "bytes."+path+".test", annotation)
		all.WriteString("  - {number: 443, name: https, protocol: HTTPS}\n  - {number: 5000, name: tcp, protocol: TCP}\n  - {number: 5001, name: tcp-nobody, protocol: TCP}\n  - {number: 5002, name: tcp-greets, protocol: TCP}\n  - {number: 3306, name: tcp-unread, protocol: TCP}\n  - {number: 5003, name: tcp-named, protocol: TCP}\n")
		fmt.Fprintf(&all, bytesEntry, "web."+path+".test", annotation)
		all.WriteString("  - {number: 8000, name: http, protocol: HTTP}\n  - {number: 8081, name: grpc, protocol: GRPC}\n")
	}
	return all.String()
}

// bytesPaths are the ways out of a pod. Nobody registered the hosts of the last one.
var bytesPaths = []string{"gateway", "direct", "passthrough", elsewhere}

// elsewhere is passthrough at ports at which nobody registered anything.
const elsewhere = "elsewhere"

// portOn is the port of a kind of exchanges on a path.
func portOn(path, kind string) uint16 {
	if path == elsewhere {
		return bytesPorts[kind] + 10000
	}
	return bytesPorts[kind]
}

// hostOn is the host of a kind of exchanges on a path.
func hostOn(path, kind string) string {
	if opaque(kind) {
		return "bytes." + path + ".test"
	}
	return "web." + path + ".test"
}

// opaque kinds are bytes that no proxy reads.
func opaque(kind string) bool {
	return kind == "tls" || kind == "tcp" || kind == "unread" || kind == "greeting" || kind == "named"
}

// The kinds of exchanges, and the port at which each is taken. Nothing is read at 3306, nor at what the settings name ("named").
var bytesPorts = map[string]uint16{"tls": 443, "tcp": 5000, "unread": 3306, "named": 5003, "greeting": 5002, "websocket": 8000, "http/1.0": 8000, "http/2": 8081, "grpc": 8081}

// TestBytesArriveWhole: whatever an app and a server outside send each other, both get all of it, whoever ends first and
// however slowly the other reads; and what one of them cuts off is not ended cleanly for the other.
func TestBytesArriveWhole(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	if err := s.SetTCPPorts("[5003, 15003]", ""); err != nil {
		t.Fatal(err)
	}
	m := newMover(t, s)
	if err := m.ready(ctx, s); err != nil {
		t.Fatal(err)
	}
	for _, path := range bytesPaths {
		for kind := range bytesPorts {
			if kind == "unread" && path == elsewhere {
				continue // all that comes there is read
			}
			for _, e := range exchangesOf(kind) {
				name := fmt.Sprintf("%s/%s/%s/%d bytes", path, strings.ReplaceAll(kind, "/", " "), e.Shape, e.Size)
				if e.Rest > 0 {
					name += " slowly"
				}
				t.Run(name, func(t *testing.T) { m.all(t, path, kind, e) })
			}
		}
	}
	if cut, all := m.cut.Load(), m.refusals.Load(); cut > 1+all/10 {
		t.Errorf("%d of %d clients whose upload was refused read a clean end before the answer", cut, all)
	} else if cut > 0 {
		t.Logf("%d of %d clients whose upload was refused read a clean end before the answer: docs/adr/0144-uploads-under-way.md", cut, all)
	}
	t.Run("creeping readers", m.creep)
	t.Run("ends", m.endAtOnce)
	t.Run("records", func(t *testing.T) { m.recordsAgree(ctx, t, s) })
}

// downloads are the kinds whose end is that of their connection.
var downloads = []string{"tls", "tcp", "unread", "greeting", "named", "websocket", "http/1.0"}

// eachDownload does something for each kind on each path, beside each other.
func (m *mover) eachDownload(t *testing.T, do func(path, kind string) error) {
	var group errgroup.Group
	for _, path := range bytesPaths {
		for _, kind := range downloads {
			if kind == "unread" && path == elsewhere {
				continue
			}
			group.Go(func() error {
				if err := do(path, kind); err != nil {
					t.Errorf("%s, %s: %v", path, kind, err)
				}
				return nil
			})
		}
	}
	_ = group.Wait()
}

// creepSize is more than the kernel keeps between a proxy and its client, so that a proxy still has some of it when the server has ended.
const creepSize = 6 << 20

// creep: a client that takes its time when the server has ended already is not cut off.
func (m *mover) creep(t *testing.T) {
	m.eachDownload(t, func(path, kind string) error {
		e := whole.Exchange{Shape: whole.Download, Size: creepSize, Rest: whole.Creeps}
		client, server := m.exchange(t.Context(), path, kind, e)
		if text := judged(kind, e, client, server); text != "" {
			return errors.New(text)
		}
		return nil
	})
}

// endAtOnce: when a server ends, its client hears of it when it has all.
func (m *mover) endAtOnce(t *testing.T) {
	m.eachDownload(t, func(path, kind string) error {
		return promptly(t.Context(), func(string) whole.Account {
			client, _ := m.begin(t.Context(), path, kind, whole.Exchange{Shape: whole.Download, Size: 1})
			return client
		})
	})
}

// exchangesOf are the exchanges of a kind. What nobody reads can be ended in every way. By HTTP/1.0 there is only an answer; the streams of HTTP/2 end their request
// before their answer ends, as calls of gRPC do but for those that stream both ways.
func exchangesOf(kind string) (list []whole.Exchange) {
	shapes := []whole.Shape{whole.Download}
	if kind == "http/2" || kind == "grpc" {
		shapes = []whole.Shape{whole.Ask, whole.Post, whole.ResetByServer, whole.ResetByClient}
	}
	if kind == "websocket" { // of which no proxy half-closes the connection, or resets it: docs/adr/0011-bytes-arrive-whole.md
		shapes = []whole.Shape{whole.Download, whole.Fetch, whole.Upload}
	}
	if opaque(kind) {
		shapes = []whole.Shape{whole.Download, whole.Fetch, whole.Upload, whole.Drop, whole.Ask, whole.Post, whole.Both, whole.Refuse, whole.ResetByServer, whole.ResetByClient}
	}
	for _, shape := range shapes {
		for _, size := range []int64{1, 64 << 10, 20 << 20} {
			if kind == "tcp" && size < 20<<20 && slices.Contains([]whole.Shape{whole.Drop, whole.Ask, whole.Post, whole.Both}, shape) {
				continue // whose end may be there before the sidecar has read: docs/adr/0011-bytes-arrive-whole.md
			}
			if kind == "tcp" && shape == whole.Ask {
				continue
			}
			reset := strings.HasPrefix(string(shape), "reset")
			if reset && size > 64<<10 || size == 64<<10 && !reset && opaque(kind) && shape != whole.Download && !longRun() {
				continue
			}
			list = append(list, whole.Exchange{Shape: shape, Size: size})
			if size > 64<<10 {
				list = append(list, whole.Exchange{Shape: shape, Size: size, Rest: whole.Slowly})
			}
		}
	}
	return list
}

// times is how often an exchange is tried: everything 100 times where that is asked for.
func times(e whole.Exchange) int {
	switch {
	case os.Getenv("SALLYPORT_LONG") != "":
		return 100
	case e.Size > 64<<10:
		return 2
	default:
		return 3
	}
}

// mover moves bytes between the app and a server outside.
type mover struct {
	server *whole.Server
	app    caller
	grpc   map[string]*http.Client // by path

	refusals, cut atomic.Int64 // uploads that were refused, and those of them whose client learnt it by its writing alone, without the answer

	mu   sync.Mutex
	next int
}

func newMover(t *testing.T, s *story.Scene) *mover {
	t.Helper()
	addOther(t.Context(), t, s)
	m := &mover{server: whole.NewServer(), app: appOf(s), grpc: map[string]*http.Client{}}
	listen := func(port uint16, serve func(net.Listener)) {
		for _, port := range []uint16{port, port + 10000} {
			l, err := s.World.Outside.Listen(netip.AddrPortFrom(otherAddr, port).String())
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() { defer close(done); serve(l) }()
			t.Cleanup(func() { _ = l.Close(); <-done })
		}
	}
	listen(5000, m.server.ServeTCP)
	listen(5002, m.server.ServeGreeting)
	listen(3306, m.server.ServeTCP)
	listen(5003, m.server.ServeTCP)
	listen(8000, m.server.ServeHTTP1)
	listen(8081, m.server.ServeHTTP2)
	listen(443, func(l net.Listener) {
		m.server.ServeTLS(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.Outside.CA.Issue(h.ServerName)
		}})
	})
	for _, path := range bytesPaths {
		s.Outside.Set("bytes."+path+".test", time.Minute, otherAddr)
		s.Outside.Set("web."+path+".test", time.Minute, otherAddr)
		transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := m.dial(ctx, path, "grpc")
			if err == nil { // many exchanges share it, each of which has its own time
				err = c.SetDeadline(time.Time{})
			}
			return c, err
		}}
		transport.Protocols.SetUnencryptedHTTP2(true)
		m.grpc[path] = &http.Client{Transport: transport, Timeout: exchangeWithin}
		t.Cleanup(transport.CloseIdleConnections)
	}
	if err := s.Config.Write("bytes.yaml", bytesEntries()); err != nil {
		t.Fatal(err)
	}
	return m
}

// ready waits until every path works, as it is registered and set: what is neither yet is let through.
func (m *mover) ready(ctx context.Context, s *story.Scene) error {
	for _, path := range []string{"gateway", "direct"} {
		for _, kind := range []string{"tcp", "grpc"} {
			if _, err := m.app.answered(ctx, hostOn(path, kind)); err != nil {
				return err
			}
		}
	}
	unread := fmt.Sprintf(`"start": %d,`, portOn(elsewhere, "named"))
	return world.Within(ctx, 5*time.Minute, func() error {
		if dump, err := s.App.Admin(ctx, "/config_dump?resource=dynamic_listeners"); err != nil || !strings.Contains(string(dump), unread) || strings.Contains(string(dump), `"warming_state"`) {
			return fmt.Errorf("the pod's listeners have no %s, or are not there yet (%w)", unread, err)
		}
		for _, path := range bytesPaths {
			for kind := range bytesPorts {
				if client, _ := m.begin(ctx, path, kind, whole.Exchange{Shape: exchangesOf(kind)[0].Shape, Size: 1}); client.Err != nil || client.Bytes != 1 {
					return fmt.Errorf("%s, %s: %w", path, kind, client.Err)
				}
			}
		}
		return nil
	})
}

func (m *mover) dial(ctx context.Context, path, kind string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	addr, err := m.app.resolve(ctx, hostOn(path, kind))
	if err != nil {
		return nil, err
	}
	c, err := m.app.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, portOn(path, kind)).String())
	if err == nil {
		err = c.SetDeadline(time.Now().Add(exchangeWithin))
	}
	return c, err
}

// exchangeWithin bounds an exchange. What hangs has failed, and on a busy machine nothing else takes as long.
const exchangeWithin = 2 * time.Minute

// exchange does one, and gives both ends' accounts.
func (m *mover) exchange(ctx context.Context, path, kind string, e whole.Exchange) (client, server whole.Account) {
	client, account := m.begin(ctx, path, kind, e)
	return client, ended(account)
}

// begin does one, and gives the client's account, and where the server's will come from.
func (m *mover) begin(ctx context.Context, path, kind string, e whole.Exchange) (client whole.Account, account <-chan whole.Account) {
	e.ID = m.name()
	host := hostOn(path, kind)
	account = m.server.Account(e.ID)
	if kind == "http/2" || kind == "grpc" {
		content := map[string]string{"http/2": "application/octet-stream", "grpc": "application/grpc"}[kind]
		client = whole.Stream(m.grpc[path], fmt.Sprintf("http://%s:%d/", host, portOn(path, kind)), content, e)
	} else {
		c, err := m.dial(ctx, path, kind)
		if err != nil {
			return whole.Account{Err: err}, unheard(err)
		}
		authority := fmt.Sprintf("%s:%d", host, portOn(path, kind))
		switch kind {
		case "tls":
			config := m.app.roots.Clone()
			config.ServerName = host
			client = whole.Run(whole.Secure(tls.Client(c, config), whole.Plain(c, nil)), e)
		case "greeting":
			client = whole.Greeted(whole.Plain(c, nil), e)
		case "tcp", "unread", "named":
			client = whole.Run(whole.Plain(c, nil), e)
		case "websocket":
			client = whole.Upgrade(c, "/", authority, e)
		case "http/1.0":
			client = whole.Get10(c, "/", authority, e)
		}
	}
	return client, account
}

// unheard is the account of a server that nobody got to.
func unheard(err error) <-chan whole.Account {
	account := make(chan whole.Account, 1)
	account <- whole.Account{Err: err}
	return account
}

// name is one for an exchange that has none yet.
func (m *mover) name() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	return fmt.Sprint(m.next)
}

// ended waits for the server's account.
func ended(account <-chan whole.Account) whole.Account {
	select {
	case a := <-account:
		return a
	case <-time.After(serverEndsWithin):
		return whole.Account{Err: errNoEnd}
	}
}

// serverEndsWithin is how long after its client the server may end.
const serverEndsWithin = time.Minute

var errNoEnd = errors.New("the server was not told that its client has ended, or never heard of it")

// all tries an exchange as often as it must be, some at a time.
func (m *mover) all(t *testing.T, path, kind string, e whole.Exchange) {
	wrong := make(chan string, times(e))
	var group errgroup.Group
	group.SetLimit(10)
	for range times(e) {
		group.Go(func() error {
			client, server := m.exchange(t.Context(), path, kind, e)
			if m.cutQuietly(e, client) {
				return nil
			}
			if text := judged(kind, e, client, server); text != "" {
				wrong <- text
			}
			return nil
		})
	}
	_ = group.Wait()
	close(wrong)
	if len(wrong) > 0 {
		t.Errorf("%d of %d were wrong; the first: %s", len(wrong), times(e), <-wrong)
	}
}

// cutQuietly counts uploads that were refused. Few of their clients may lose the answer by a clean end: where a proxy's write fails before it has looked for
// what came, it closes without looking (docs/adr/0144-uploads-under-way.md).
func (m *mover) cutQuietly(e whole.Exchange, client whole.Account) bool {
	if e.Shape != whole.Refuse {
		return false
	}
	m.refusals.Add(1)
	if client.Cut == nil {
		return false
	}
	m.cut.Add(1)
	return true
}

// judged says what is wrong with an exchange: nothing is "".
func judged(kind string, e whole.Exchange, client, server whole.Account) string {
	text := fmt.Sprintf("client %d bytes, %v; server %d bytes, %v", client.Bytes, client.Err, server.Bytes, server.Err)
	clean := client.Err == nil && server.Err == nil
	if e.Shape == whole.Refuse && client.Err != nil { // known to be cut
		return ""
	}
	switch e.Shape {
	case whole.ResetByServer: // who resets has no error
		clean = cutOff(kind, client.Err) && server.Err == nil
	case whole.ResetByClient:
		clean = client.Err == nil && cutOff(kind, server.Err)
	}
	if !clean || client.Bytes != e.Size || server.Bytes != e.Size {
		return text
	}
	return ""
}

// cutOff says whether an error is what a reset looks like: nothing else where nobody reads the bytes.
func cutOff(kind string, err error) bool {
	return err != nil && (!opaque(kind) || errors.Is(err, syscall.ECONNRESET))
}

// failing is how many tunnels are opened to where nobody listens.
const failing = 20

// recordsAgree: the record of a connection counts what its ends counted, and a tunnel that leads nowhere has one record.
func (m *mover) recordsAgree(ctx context.Context, t *testing.T, s *story.Scene) {
	for range failing {
		addr, err := m.app.resolve(ctx, hostOn("gateway", "tcp"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := m.app.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, 5001).String())
		if err != nil {
			t.Fatal(err)
		}
		if client := whole.Run(whole.Plain(c, nil), whole.Exchange{ID: "nobody", Shape: whole.Download, Size: 1}); client.Bytes > 0 {
			t.Errorf("%d bytes came from nobody", client.Bytes)
		}
	}
	m.tunnelsCounted(ctx, t, s)
	var failed []record.Record
	if err := world.Within(ctx, 2*time.Minute, func() error {
		records, err := s.AuditRecords(ctx, "--host", hostOn("gateway", "tcp"), "--limit", "100000")
		failed = slices.DeleteFunc(records, func(r record.Record) bool { return r.Class == record.DNS || r.Port != 5001 })
		if err == nil && len(failed) < failing {
			err = fmt.Errorf("%d records of %d tunnels that lead nowhere", len(failed), failing)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if len(failed) > failing {
		t.Errorf("%d records of %d tunnels that lead nowhere, such as %+v", len(failed), failing, failed)
	}
}

// tunnelCount is what a client counted on a connection, which its record has to say.
type tunnelCount struct {
	what           string
	port           uint16
	sent, received int64
	slack          int64 // bytes that one end may have said when the other had gone
}

func (c tunnelCount) fits(r record.Record) bool {
	near := func(counted uint64, want int64) bool { return max(int64(counted)-want, want-int64(counted)) <= c.slack }
	return r.Class != record.DNS && r.Port == uint32(c.port) && near(r.BytesSent, c.received) && near(r.BytesReceived, c.sent)
}

// farewell is what TLS says at its end: an alert (RFC 8446 section 6.1), encrypted.
const farewell = 40

// tunnelsCounted moves bytes in every way, each time another number, and waits for records that count what the client did.
func (m *mover) tunnelsCounted(ctx context.Context, t *testing.T, s *story.Scene) {
	var counts []tunnelCount
	size := int64(70_000)
	for _, path := range bytesPaths[:3] {
		for _, kind := range []string{"tcp", "tls"} {
			for _, e := range exchangesOf(kind) {
				if e.Shape == whole.Refuse || e.Rest > 0 || e.Size != 1 && e.Shape != whole.Download || e.Size > 64<<10 {
					continue // once each shape
				}
				size += 1009
				e.Size, e.ID = size, m.name()
				counter, err := m.counts(ctx, path, kind, e)
				if err != nil {
					t.Errorf("%s, %s: %v", path, e, err)
					continue
				}
				c := tunnelCount{what: path + ", " + kind + ", " + e.String(), port: portOn(path, kind), sent: counter.Sent.Load(), received: counter.Received.Load()}
				if kind == "tls" {
					c.slack = farewell
				}
				counts = append(counts, c)
			}
		}
	}
	err := world.Within(ctx, 2*time.Minute, func() error {
		records, err := s.AuditRecords(ctx, "--since", "2h", "--limit", "100000")
		for _, c := range counts {
			if !slices.ContainsFunc(records, c.fits) {
				err = errors.Join(err, fmt.Errorf("no record of port %d says %d bytes sent and %d received: %s", c.port, c.received, c.sent, c.what))
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("the records of %d connections say what their clients counted", len(counts))
}

// counts does an exchange and gives the client's count.
func (m *mover) counts(ctx context.Context, path, kind string, e whole.Exchange) (*whole.Counter, error) {
	account := m.server.Account(e.ID)
	conn, err := m.dial(ctx, path, kind)
	if err != nil {
		return nil, err
	}
	counter := &whole.Counter{Conn: conn}
	var client whole.Account
	if kind == "tls" {
		config := m.app.roots.Clone()
		config.ServerName = hostOn(path, kind)
		client = whole.Run(whole.Secure(tls.Client(counter, config), counter), e)
	} else {
		client = whole.Run(counter, e)
	}
	if text := judged(kind, e, client, ended(account)); text != "" {
		return nil, errors.New(text)
	}
	return counter, nil
}
