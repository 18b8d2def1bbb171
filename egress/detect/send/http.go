package send

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// kept is a client whose connections are there for the next message, too.
type kept struct {
	*http.Client
	roots *x509.CertPool
	since time.Time
}

// How long connections are kept: without a message, and at all, since behind a name there may be others by then.
const (
	idleFor = 10 * time.Second
	keptFor = 5 * time.Minute
)

// client gives a client that stays where it is sent. Receivers of records keep it, as long as the same roots are trusted; findings are sent now and then, and each
// time by a connection of its own.
func (t *to) client() (*http.Client, error) {
	config, err := t.tls()
	if err != nil {
		return nil, err
	}
	now := t.options.Now()
	if t.kept != nil && t.kept.roots.Equal(config.RootCAs) && now.Sub(t.kept.since) < keptFor {
		return t.kept.Client, nil
	}
	t.closeIdle()
	client := &http.Client{
		Timeout: t.options.Timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: !t.keeps, IdleConnTimeout: idleFor,
			TLSHandshakeTimeout: t.options.Timeout, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if t.keeps {
		t.kept = &kept{client, config.RootCAs, now}
	}
	return client, nil
}

// closeIdle ends connections that were kept.
func (t *to) closeIdle() {
	if t.kept != nil {
		t.kept.CloseIdleConnections()
		t.kept = nil
	}
}

// post sends JSON to the target's URL and what is below it, again where that may help.
func (t *to) post(ctx context.Context, below string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return t.postBytes(ctx, below, raw)
}

func (t *to) postBytes(ctx context.Context, below string, raw []byte) error {
	a, err := t.read()
	if err != nil {
		return err
	}
	where := a.URL
	if below != "" {
		where = where.JoinPath(below)
	}
	_, err = t.exchange(ctx, a, where, raw, func(*http.Client, *http.Request) {})
	return err
}

// mostAnswer is how much of an answer is read.
const mostAnswer = 64 << 10

// exchange sends JSON to a URL of the target, by a client and a request that are prepared, again where that may help, and gives the answer to what was taken.
func (t *to) exchange(ctx context.Context, a *address, where *url.URL, raw []byte, prepare func(*http.Client, *http.Request)) (answer []byte, err error) {
	err = t.again(ctx, func() error {
		client, err := t.client()
		if err != nil {
			return backoff.Permanent(err)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, where.String(), bytes.NewReader(raw))
		if err != nil {
			return backoff.Permanent(a.secretive(err))
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("User-Agent", "sallyport")
		for name, value := range a.headers {
			request.Header.Set(name, value)
		}
		prepare(client, request)
		response, err := client.Do(request)
		if err != nil {
			t.closeIdle() // its other end may be gone without a word
			return a.secretive(err)
		}
		defer response.Body.Close()
		if err := judge(response); err != nil {
			return err
		}
		if answer, err = io.ReadAll(io.LimitReader(response.Body, mostAnswer)); err != nil {
			return fmt.Errorf("its answer broke off: %w", a.secretive(err))
		}
		return nil
	})
	return answer, err
}

// judge says whether an answer means that the message was taken, and whether to try again.
func judge(r *http.Response) error {
	switch code := r.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusTooManyRequests, code >= 500:
		if wait, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && wait >= 0 {
			return errors.Join(fmt.Errorf("it answered %s", r.Status), backoff.RetryAfter(min(wait, 30)))
		}
		return fmt.Errorf("it answered %s", r.Status)
	case code == http.StatusRequestEntityTooLarge:
		return backoff.Permanent(fmt.Errorf("it answered %s: %w", r.Status, errTooLarge))
	case code/100 == 3:
		return backoff.Permanent(fmt.Errorf("it answered %s: redirects are not followed; give the URL that it leads to", r.Status))
	default:
		return backoff.Permanent(fmt.Errorf("it answered %s", r.Status))
	}
}

// again calls f until it works, a few times with longer and longer pauses. The error names the sink.
func (t *to) again(ctx context.Context, f func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval = t.options.Pause
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := f()
		if t.divides && tookTooLong(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	},
		backoff.WithBackOff(pauses), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(tries*(t.options.Timeout+10*time.Second)))
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name(), err)
	}
	return nil
}
