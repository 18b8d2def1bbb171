package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
)

// requestCommand asks Envoy's administration, which listens on the pod's loopback only. Its words are those of Istio's
// agent, so that tools which call that find it here.
func requestCommand() *cobra.Command {
	var port uint16
	cmd := &cobra.Command{
		Use:   "request METHOD PATH",
		Short: "Ask the administration interface of this pod's Envoy",
		Example: `  sallyport-agent request GET config_dump?include_eds
  kubectl exec deploy/app -c istio-proxy -- sallyport-agent request GET clusters
  sallyport-agent request POST logging?level=debug`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return program.Misuse(fmt.Errorf("request takes a method and a path, such as GET config_dump"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			url := fmt.Sprintf("http://127.0.0.1:%d/%s", port, strings.TrimPrefix(args[1], "/"))
			req, err := http.NewRequestWithContext(cmd.Context(), strings.ToUpper(args[0]), url, nil)
			if err != nil {
				return program.Misuse(err)
			}
			client := http.Client{Timeout: time.Minute, Transport: &http.Transport{Proxy: nil}}
			resp, err := client.Do(req)
			if err != nil {
				return fmt.Errorf("the Envoy of this pod does not answer: %w", err)
			}
			defer func() { _ = resp.Body.Close() }()
			if _, err := io.Copy(cmd.OutOrStdout(), resp.Body); err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s %s: %s", args[0], args[1], resp.Status)
			}
			return nil
		},
	}
	cmd.Flags().Uint16Var(&port, "admin-port", 15000, "Envoy's administration port")
	return cmd
}
