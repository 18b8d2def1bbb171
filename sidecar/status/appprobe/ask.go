package appprobe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// Limits of an application's answer.
const (
	maxBody      = 10 << 10 // bytes read, as by a kubelet
	maxHeader    = 64 << 10
	maxRedirects = 10
)

// get performs an httpGet as a kubelet does: HTTPS without verification, redirects followed within the pod, one to
// another host taken as success. An answer that ends too soon has a status, and is an error.
func (h *handler) get(ctx context.Context, p *HTTPGet) (int, error) {
	client := http.Client{
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return h.dial(ctx, p.Port) },
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a kubelet does not verify either
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Host != via[0].URL.Host {
				return http.ErrUseLastResponse
			}
			if len(via) >= maxRedirects {
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}
	req, err := h.request(ctx, p)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	err = errors.Join(err, resp.Body.Close())
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return http.StatusOK, err // the kubelet shall not follow it past the agent
	}
	return resp.StatusCode, err
}

func (h *handler) request(ctx context.Context, p *HTTPGet) (*http.Request, error) {
	scheme := "http"
	if p.Scheme == "HTTPS" {
		scheme = "https"
	}
	target, err := url.Parse("/" + strings.TrimPrefix(p.Path, "/"))
	if err != nil { // kubelets take what is no URL as a path
		target = &url.URL{Path: p.Path}
	}
	target.Scheme, target.Host = scheme, h.address(p.Port)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "kube-probe/sallyport")
	req.Header.Set("Accept", "*/*")
	for _, header := range p.Headers {
		if strings.EqualFold(header.Name, "Host") {
			req.Host = header.Value
			continue
		}
		req.Header.Set(header.Name, header.Value)
	}
	return req, nil
}

// health performs a grpc probe.
func (h *handler) health(ctx context.Context, p *GRPC) (err error) {
	conn, err := grpc.NewClient("passthrough:///"+h.address(p.Port),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBody)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.dial(ctx, p.Port) }),
		grpc.WithUserAgent("kube-probe/sallyport"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: p.Service})
	if err != nil {
		return err
	}
	if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("grpc service %q is %s", p.Service, answer.GetStatus())
	}
	return nil
}
