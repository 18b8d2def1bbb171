package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/xds/identity"
)

func (f *explainFlags) addQuestion(fs *pflag.FlagSet) {
	q := &f.question
	fs.StringVar(&q.From, "from", "", "NAMESPACE/WORKLOAD, and labels if they matter: ?label=value&…")
	fs.StringVar(&q.Account, "service-account", "", "service account that the workload runs as")
	fs.StringVar(&f.identity, "identity", "", "the same with its namespace: a SPIFFE id, or NAMESPACE/ACCOUNT; --from may be left out")
	fs.StringVar(&q.Method, "method", "", "method of the request (GET)")
	fs.StringVar(&q.Path, "path", "", "path of the request, and its query, as they are sent (the URL's)")
	fs.StringArrayVar(&q.Headers, "header", nil, "header of the request, NAME=VALUE; repeat it")
	fs.StringVar(&q.Address, "address", "", "address of the workload, or, with --gateway, of the client, where AuthorizationPolicies ask for it")
	fs.StringVar(&q.To, "to", "", "NAMESPACE/WORKLOAD[?label=value&…] whose pod it comes to")
	fs.BoolVar(&q.Plaintext, "plaintext", false, "with --to: it does not come by mutual TLS of the mesh")
	fs.StringArrayVar(&q.Claims, "claim", nil, "with --to or --gateway: claim of the request's token, NAME=VALUE; repeat it, with iss")
	fs.StringVar(&q.Gateway, "gateway", "", "NAMESPACE/NAME[?label=value&…] of an ingress gateway, to which somebody outside of the mesh sends it")
	fs.StringVar(&q.At, "at", "", "when, like 2030-12-31T00:00:00Z (now)")
}

// identify makes the workload's account, and without --from the workload, of --identity.
func (f *explainFlags) identify() error {
	if f.identity == "" {
		return nil
	}
	if f.question.Account != "" {
		return errors.New("--service-account and --identity: give one of them")
	}
	ns, account, ok := strings.Cut(f.identity, "/")
	if strings.HasPrefix(f.identity, "spiffe:") {
		id, err := identity.ParseID(f.identity)
		if err != nil {
			return fmt.Errorf("--identity: %w", err)
		}
		ns, account = id.Namespace, id.ServiceAccount
	} else if !ok || identity.ValidateAccount(ns, account) != nil {
		return fmt.Errorf("--identity %q: must be a SPIFFE id, or NAMESPACE/ACCOUNT, like shop/checkout", f.identity)
	}
	from, _, _ := strings.Cut(f.question.From, "/")
	if f.question.From == "" {
		f.question.From = ns + "/" + account
	} else if from != ns {
		return fmt.Errorf("--identity %q: --from is in namespace %s", f.identity, from)
	}
	f.question.Account = account
	return nil
}
