package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/token"
)

// tokenOptions are the flags and the argument of `sallyport token`.
type tokenOptions struct {
	dataDir string
	account string // NAMESPACE/SERVICEACCOUNT
	ttl     time.Duration
	output  string
}

func tokenCommand() *cobra.Command {
	var o tokenOptions
	command := &cobra.Command{
		Use:   "token --data DIR NAMESPACE/SERVICEACCOUNT",
		Short: "Print a token with which a workload's agent proves its service account",
		Long: `Print a token with which a workload's agent proves its service account.

Without Kubernetes nobody else can vouch for a workload: the token is signed by the controller's own key, which is
made in the data folder when it is not there yet. Whoever holds the token is the service account until it expires.`,
		Example: `  sallyport token --data /var/lib/sallyport shop/checkout > /run/secrets/token
  sallyport token --data /var/lib/sallyport shop/checkout --ttl 1h -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return program.Misuse(fmt.Errorf("want one argument NAMESPACE/SERVICEACCOUNT, got %d: %q", len(args), args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.account = args[0]
			return printToken(c.OutOrStdout(), o, time.Now())
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.dataDir, "data", "", "the controller's data folder (required)")
	flags.DurationVar(&o.ttl, "ttl", 24*time.Hour, "how long the token is valid")
	flags.StringVarP(&o.output, "output", "o", "text", "text or json")
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return program.Misuse(err) })
	return command
}

func printToken(w io.Writer, o tokenOptions, now time.Time) error {
	namespace, serviceAccount, err := o.validate()
	if err != nil {
		return program.Misuse(err)
	}
	key, err := token.OpenKey(o.dataDir)
	if err != nil {
		return err
	}
	issued, expires, err := key.Issue(namespace, serviceAccount, now, o.ttl)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return json.NewEncoder(w).Encode(struct {
			Token   string    `json:"token"`
			Expires time.Time `json:"expires"`
		}{issued, expires.UTC()})
	}
	_, err = fmt.Fprintln(w, issued)
	return err
}

func (o tokenOptions) validate() (namespace, serviceAccount string, err error) {
	if o.dataDir == "" {
		return "", "", errors.New("--data is required: the controller's data folder; in a cluster no token is needed, since Kubernetes gives each pod its own")
	}
	if o.output != "text" && o.output != "json" {
		return "", "", fmt.Errorf("--output %q: want text or json", o.output)
	}
	if o.ttl < token.MinTTL || o.ttl > token.MaxTTL {
		return "", "", fmt.Errorf("--ttl %s: must be between %s and %s", o.ttl, token.MinTTL, token.MaxTTL)
	}
	namespace, serviceAccount, ok := strings.Cut(o.account, "/")
	if !ok {
		return "", "", fmt.Errorf("argument %q: want NAMESPACE/SERVICEACCOUNT", o.account)
	}
	if err := identity.ValidateAccount(namespace, serviceAccount); err != nil {
		return "", "", fmt.Errorf("argument %q: %w", o.account, err)
	}
	return namespace, serviceAccount, nil
}
