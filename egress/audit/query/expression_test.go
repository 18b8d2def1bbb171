package query

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

func TestParseExpression(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"  host:*.a.test -workload:shop/cart verdict:denied since:7d ": "host:*.a.test -workload:shop/cart verdict:denied since:7d",
		"paypal":                         "host:*paypal*",
		"-*.corp":                        "-host:*.corp*",
		`reason:"not registered",x`:      `reason:"not registered",x`,
		`host:""`:                        `host:""`,
		`host:"a\"b\\c,d"`:               `host:"a\"b\\c,d"`,
		"status:>=500 bytes:>10MB":       "status:>=500 bytes:>10MB",
		"until:2026-01-02 port:443,8443": "port:443,8443 until:2026-01-02",
		"Verdict:denied":                 "verdict:denied",
		"a.test:443":                     "host:*a.test:443*",
		"decided_by_name:x":              "decided_by_name:x",
		"from:shop":                      "from:shop",
		"2001:db8::1 -::1":               "host:*2001:db8::1* -host:*::1*",
		`"a b&c"`:                        `host:"*a b&c*"`,
		`url:"'x'"`:                      `url:"'x'"`,
		"bücher.test,xn--*":              "host:*bücher.test*,*xn--*",
		`url:"<script>"`:                 `url:"<script>"`,
	} {
		e, err := ParseExpression(text)
		if err != nil || e.String() != want {
			t.Errorf("%s: %s, %v", text, e, err)
		}
	}
	for text, want := range map[string]string{
		"hosts:a":                            `did you mean "host"`,
		"host=a":                             `no host has "="`,
		"!host:a":                            `no host has "!"`,
		"(host:a)":                           `no host has "("`,
		"a || b":                             `no host has "|"`,
		"host:a OR host:b":                   "alternatives are",
		"host:a AND port:443":                "all terms have to hold",
		"NOT host:a":                         "-host:a",
		"host:'a b'":                         `quotes are "`,
		"“host:a”":                           `quotes are "`,
		"https://a.test/x":                   "host:a.test url:/x",
		"colour:red":                         "keys are host, workload",
		"verdict:maybe":                      `filter "verdict:maybe": it is allowed or denied`,
		"host:":                              "a value is missing",
		"host:a,":                            "a value is missing",
		`host:"a`:                            "not closed",
		`host:"a"b`:                          "a space is missing",
		`host:a"b`:                           "whole value in quotes",
		"since:yesterday":                    "time",
		"-since:7d":                          "without -",
		"since:1h since:2h":                  "twice",
		"host:>5":                            "compares one number",
		"port:>1,2":                          "compares one number",
		"port:http":                          "it is a number",
		"bytes:big":                          "no number of bytes",
		"bytes:NaNMB":                        "no number of bytes",
		"duration:x":                         "no duration",
		"workload:a/b/c":                     "NAMESPACE/NAME",
		"decided:a/b":                        "KIND/NAMESPACE/NAME",
		"host:\x00":                          "NUL",
		"host:\xff":                          "UTF-8",
		strings.Repeat("a ", 100):            "more than",
		strings.Repeat("a", maxExpression+1): "bytes",
		"host:" + strings.Repeat("a,", 300) + "a": "more than",
	} {
		if e, err := ParseExpression(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, %v", text, e, err)
		}
	}
}

func TestExpressionTimes(t *testing.T) {
	for text, want := range map[string][2]time.Time{
		"":                   {noon.Add(-time.Hour), {}},
		"since:2h until:30m": {noon.Add(-2 * time.Hour), noon.Add(-30 * time.Minute)},
		"since:2027-04-30":   {time.Date(2027, 4, 30, 0, 0, 0, 0, time.UTC), {}},
	} {
		e, err := ParseExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := e.Filter(noon, "1h"); err != nil || !f.Since.Equal(want[0]) || !f.Until.Equal(want[1]) {
			t.Errorf("%s: %v – %v, %v", text, f.Since, f.Until, err)
		}
	}
	e := Expression{Since: "1h", Until: "2h"}
	if _, err := e.Filter(noon, ""); err == nil || !strings.Contains(err.Error(), "not before") {
		t.Error(err)
	}
}

func TestWithTerm(t *testing.T) {
	e, err := ParseExpression("host:a -port:80 verdict:denied")
	if err != nil {
		t.Fatal(err)
	}
	if got := e.With(Term{Key: "host", Values: []string{"a"}, Not: true}).String(); got != "-port:80 verdict:denied -host:a" {
		t.Error(got)
	}
	if got := e.Without(1).Between("7d", "").String(); got != "host:a verdict:denied since:7d" {
		t.Error(got)
	}
	if got := e.String(); got != "host:a -port:80 verdict:denied" {
		t.Error("it changed: " + got)
	}
}

// TestExpressionAgrees: the database and Match say the same of each expression and record, and each chooses what it should.
func TestExpressionAgrees(t *testing.T) {
	records := append(sample(),
		rec(7, func(r *record.Record) {
			r.Host, r.SNI, r.Workload.Labels, r.Flags = "Seven.test", "seven.TEST", "app=cart,env=prod", []string{"UF", "URX"}
			r.BytesSent, r.BytesReceived, r.Duration, r.Status = 1<<63, 1<<63, 31*time.Second, 503
			r.DecidedBy = record.Object{Kind: "ServiceEntry", Namespace: "shop", Name: "ext"}
			r.AllowedBy = record.Object{Kind: record.EgressPolicy, Namespace: "shop", Name: "allowed", Rule: "partners"}
		}),
		rec(8, func(r *record.Record) {
			r.Host, r.URLPath, r.Method, r.Destination = "", "/api/x y", "GET", "10.0.0.7:443"
			r.WouldDeny = record.Object{Kind: record.EgressPolicy, Namespace: "shop", Name: "next", Rule: "default"}
			r.DestinationWorkload = record.Workload{Namespace: "shop", Name: "db-0"}
		}))
	db := filled(t, records...)
	for text, want := range map[string][]uint64{
		"":                          {1, 2, 3, 4, 5, 6, 7, 8},
		"host:*.evil.test":          {3},
		"-host:*evil.test":          {1, 4, 5, 6, 7, 8},
		"EVIL":                      {2, 3},
		"host:evil.test,SEVEN.test": {2, 7},
		`host:""`:                   {6, 8},
		"workload:shop/cart-1 -port:80 class:http verdict:denied": {2, 3},
		"from:pay":                       {4},
		"workload:pay/cart":              {4},
		"workload:/cart":                 {1, 2, 3, 4, 5, 6, 7, 8},
		"-workload:shop":                 {4},
		"label:app=cart":                 {7},
		"label:env=*":                    {7},
		"-label:app=*":                   {1, 2, 3, 4, 5, 6, 8},
		"flag:UF":                        {7},
		`flag:""`:                        {1, 2, 3, 4, 5, 6, 8},
		"bytes:>1GB":                     {7},
		"bytes:<1GB class:gap":           {6},
		"duration:>30s":                  {7},
		"status:>=500":                   {7},
		"status:503":                     {7},
		"decided:ServiceEntry":           {7},
		"decided:ServiceEntry/shop/e*":   {7},
		`decided:"" class:http host:h1*`: {1},
		"policy:shop":                    {7, 8},
		"rule:partners":                  {7},
		"would-deny:*":                   {8},
		"-would-deny:shop/next":          {1, 2, 3, 4, 5, 6, 7},
		`url:"/api/x y"`:                 {8},
		"address:10.0.0.*":               {8},
		"to:shop/db-*":                   {8},
		"lost:>0":                        {6},
		"sni:*.test":                     {7},
		"verdict:denied,allowed":         {1, 2, 3, 4, 5, 7, 8},
		`verdict:""`:                     {6},
		"host:*%_\\'*":                   {5},
		"since:58m until:56m":            {2, 3},
	} {
		e, err := ParseExpression(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		f, err := e.Filter(noon.Add(time.Hour), "")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var found, fit []uint64
		if err := Each(t.Context(), db, f, func(r record.Record) error {
			found = append(found, r.Seq)
			return nil
		}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for i := range records {
			if f.Match(&records[i]) {
				fit = append(fit, records[i].Seq)
			}
		}
		if !slices.Equal(found, want) || !slices.Equal(fit, want) {
			t.Errorf("%s: the database has %v, Match %v, want %v", text, found, fit, want)
		}
	}
	for _, k := range Keys() { // each can be asked
		value := "1"
		if k.check != nil && k.check(value) != nil {
			value = strings.TrimLeft(strings.SplitN(k.Example, ":", 2)[1], "<>=")
		}
		for _, not := range []bool{false, true} {
			f := Filter{Terms: []Term{{Key: k.Name, Not: not, Values: []string{value}}}}
			n := 0
			if err := Each(t.Context(), db, f, func(record.Record) error { n++; return nil }); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
			for i := range records {
				if f.Match(&records[i]) {
					n--
				}
			}
			if n != 0 {
				t.Errorf("%s: Match and the database differ by %d", f.Terms[0], n)
			}
		}
	}
}

// TestTermsOfOthers: what came over the wire and is no term chooses nothing, and reaches no SQL.
func TestTermsOfOthers(t *testing.T) {
	db := filled(t, sample()...)
	for _, text := range []string{`[{"key":"host' OR 1=1 --","values":["a"]}]`, `[{"key":"host","operator":"= '' OR 1=1 --","values":["a"]}]`, `[{"key":"host"}]`} {
		var f Filter
		if err := json.Unmarshal([]byte(text), &f.Terms); err != nil {
			t.Fatal(err)
		}
		if err := Each(t.Context(), db, f, func(record.Record) error { t.Error(text); return nil }); err != nil {
			t.Error(err)
		}
		if r := rec(1, nil); f.Match(&r) {
			t.Error(text)
		}
	}
}

func FuzzExpression(f *testing.F) {
	for _, text := range []string{`host:*.a.test -workload:shop/cart since:7d`, `reason:"a \" b",c`, `bytes:>1GB paypal`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpression(text)
		if err != nil {
			return
		}
		again, err := ParseExpression(e.String())
		if len(e.String()) <= maxExpression && (err != nil || again.String() != e.String()) {
			t.Errorf("%q becomes %q, then %q, %v", text, e, again, err)
		}
	})
}
