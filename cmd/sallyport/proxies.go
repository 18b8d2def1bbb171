package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/xds/serve"
)

func proxiesCommand() *cobra.Command {
	var admin, output string
	cmd := &cobra.Command{
		Use:   "proxies",
		Short: "List the proxies that are connected, and whether they have taken everything",
		Example: `  sallyport proxies
  sallyport proxies -o json --admin-addr 127.0.0.1:15014`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("-o %q: must be table or json", output)}
			}
			body, err := ask(cmd.Context(), admin, "/debug/proxies", nil)
			if err != nil {
				return err
			}
			if output == "json" {
				_, err = cmd.OutOrStdout().Write(body)
				return err
			}
			var list []serve.ProxyStatus
			if err := json.Unmarshal(body, &list); err != nil {
				return err
			}
			return printProxies(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().StringVar(&admin, "admin-addr", "127.0.0.1:15014", "the controller's admin address")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func printProxies(w io.Writer, list []serve.ProxyStatus) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "PROXY\tNAMESPACE\tSYNCED\tREFUSED")
	for _, p := range list {
		var refused []string
		for _, s := range p.Types {
			if s.Problem != "" {
				refused = append(refused, s.Problem)
			}
		}
		slices.Sort(refused)
		fmt.Fprintf(t, "%s\t%s\t%t\t%s\n", p.ID, p.Namespace, p.Synced, strings.Join(refused, "; "))
	}
	return t.Flush()
}

func configCommand() *cobra.Command {
	var admin, output string
	cmd := &cobra.Command{
		Use:   "config PROXY",
		Short: "Show what a connected proxy was given",
		Example: `  sallyport config sidecar~10.0.0.1~app.default~default.svc.cluster.local
  sallyport config "$(sallyport proxies -o json | jq -r '.[0].id')" | jq .clusters`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("config takes one proxy's id; see sallyport proxies")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "json" {
				return usageError{fmt.Errorf("-o %q: must be json", output)}
			}
			body, err := ask(cmd.Context(), admin, "/debug/xds", url.Values{"proxy": args})
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(body)
			return err
		},
	}
	cmd.Flags().StringVar(&admin, "admin-addr", "127.0.0.1:15014", "the controller's admin address")
	cmd.Flags().StringVarP(&output, "output", "o", "json", "json")
	return cmd
}

// ask puts a question to the controller's admin address.
func ask(ctx context.Context, admin, path string, query url.Values) ([]byte, error) {
	u := url.URL{Scheme: "http", Host: admin, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("--admin-addr %q: %w", admin, err)}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the controller does not answer at %s: is it running, with this --admin-addr? %w", admin, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", strings.TrimSpace(string(body)))
	}
	return body, nil
}
