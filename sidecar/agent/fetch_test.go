package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"

	"github.com/sallyport/sallyport/xds/ondemand"
)

// asked is Envoy's question, with what the row that asks says of it.
func asked(host string, row, headers map[string]string) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request:           &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Host: host, Headers: headers}},
		ContextExtensions: row,
	}}
}

func TestWhatIsFetched(t *testing.T) {
	question := func(to, asRange string) map[string]string {
		return map[string]string{ondemand.TableHeader: "decide-443", ondemand.ToHeader: to, ondemand.RangeHeader: asRange}
	}
	request, connection := map[string]string{ondemand.FetchTable: "80"}, map[string]string{ondemand.FetchClosed: ""}
	gateway := map[string]string{ondemand.FetchTable: "exit", ondemand.FetchAuthority: "yes", ondemand.FetchClosed: ""}
	for name, c := range map[string]struct {
		of    *authv3.CheckRequest
		table string
		hosts []string
	}{
		"a request":                  {asked("Shop.test:8080", request, nil), "80", []string{"shop.test"}},
		"one to an address":          {asked("[2001:db8::1]:80", request, nil), "80", []string{"[2001:db8::1]"}},
		"one that claims a table":    {asked("shop.test", request, question("240.240.0.1:80", "x.test:80")), "80", []string{"shop.test"}},
		"TLS":                        {asked("shop.test:443", connection, question("240.240.0.1:443", "")), "443", []string{"shop.test", "240.240.0.1"}},
		"TLS without a name":         {asked(":443", connection, question("240.240.0.1:443", "")), "443", []string{"", "240.240.0.1"}},
		"at a gateway":               {asked("Shop.test:8443", gateway, question("240.240.0.1:443", "x.test:80")), "exit", []string{"shop.test:8443"}},
		"by address, within a range": {asked("10.1.2.3:443", connection, question("10.1.2.3:443", "Range.test:443")), "443", []string{"10.1.2.3", "range.test"}},
	} {
		if table, hosts := fetchedHosts(c.of.GetAttributes()); table != c.table || !slices.Equal(hosts, c.hosts) {
			t.Errorf("%s: %v of table %q, want %v of %q", name, hosts, table, c.hosts, c.table)
		}
	}
}

// TestNotFetchedIsClosed: what could not be had is no reason to go on as if nobody had registered it.
func TestNotFetchedIsClosed(t *testing.T) {
	var problem error
	f := &fetches{log: slog.New(slog.DiscardHandler), use: func(context.Context, string, ...string) error { return problem }}
	check := func(row map[string]string) *authv3.CheckResponse {
		t.Helper()
		answer, err := f.Check(t.Context(), asked("shop.test", row, nil))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	request := map[string]string{ondemand.FetchTable: "80"}
	if answer := check(request); codes.Code(answer.GetStatus().GetCode()) != codes.OK || answer.GetOkResponse() == nil {
		t.Errorf("what there is was fetched, and the answer is %v", answer)
	}
	if headers := check(request).GetOkResponse().GetHeaders(); len(headers) > 0 {
		t.Errorf("a sidecar's request is told %v", headers)
	}
	gateway := map[string]string{ondemand.FetchTable: "exit", ondemand.FetchAuthority: "yes"}
	if headers := check(gateway).GetOkResponse().GetHeaders(); len(headers) != 1 || headers[0].GetHeader().GetKey() != ondemand.FetchedHeader {
		t.Errorf("a gateway's request is told %v, and would not be looked for anew", headers)
	}
	gateway[ondemand.FetchTwice] = "yes"
	if denied := check(gateway).GetDeniedResponse(); denied.GetStatus().GetCode() != 503 || !strings.Contains(denied.GetBody(), "come again") {
		t.Errorf("what cannot go on: %v", denied)
	}
	problem = errors.New("Envoy refused it")
	denied := check(request).GetDeniedResponse()
	if denied.GetStatus().GetCode() != 503 || !strings.Contains(denied.GetBody(), "shop.test") || !strings.Contains(denied.GetBody(), problem.Error()) {
		t.Errorf("a request: %v", denied)
	}
	answer := base64.StdEncoding.EncodeToString([]byte("nowhere"))
	denied = check(map[string]string{ondemand.FetchClosed: answer}).GetDeniedResponse()
	if denied.GetStatus().GetCode() != 200 || denied.GetBody() != "nowhere" {
		t.Errorf("a question: %v, want the answer that its row gives", denied)
	}
}
