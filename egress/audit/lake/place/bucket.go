package place

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket is a lake behind an S3 API. Each call makes a client of its own, so that credentials may change at any time.
type bucket struct {
	endpoint     string
	secure       bool
	region       string
	name, prefix string
	access       Access
	transport    *http.Transport
}

func newBucket(u *url.URL, a Access) (*bucket, error) {
	b := &bucket{endpoint: "s3.amazonaws.com", secure: true, name: u.Host, prefix: strings.Trim(u.Path, "/"), access: a}
	if b.name == "" {
		return nil, errors.New("an s3:// URL names a bucket: s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=NAME")
	}
	if b.prefix != "" {
		b.prefix += "/"
	}
	for key, values := range u.Query() {
		switch key {
		case "endpoint":
			end, err := url.Parse(values[0])
			if err != nil || end.Host == "" || end.User != nil || end.Scheme != "http" && end.Scheme != "https" || strings.Trim(end.Path, "/") != "" {
				return nil, fmt.Errorf("endpoint=%s: write https://HOST:PORT", values[0])
			}
			b.endpoint, b.secure = end.Host, end.Scheme == "https"
		case "region":
			b.region = values[0]
		default:
			return nil, fmt.Errorf("it has %s=, which is neither endpoint nor region", key)
		}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CAFile != "" {
		pem, err := os.ReadFile(a.CAFile)
		if err != nil {
			return nil, fmt.Errorf("roots: %w", err)
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("roots: %s holds no certificate", a.CAFile)
		}
	}
	b.transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: min(a.Patience, time.Minute), IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 4,
	}
	return b, nil
}

func (b *bucket) String() string { return "s3://" + b.name + "/" + b.prefix + " at " + b.endpoint }

func (b *bucket) URI(name string) string { return "s3://" + b.name + "/" + b.prefix + name }

// CloseIdleConnections ends those that nothing is asked on.
func (b *bucket) CloseIdleConnections() { b.transport.CloseIdleConnections() }

// client reads the credentials.
func (b *bucket) client() (*minio.Client, error) {
	creds := credentials.NewFileAWSCredentials(b.access.Credentials, "")
	if b.access.Credentials == "" {
		creds = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Transport: b.transport, Timeout: 10 * time.Second}},
		})
	}
	return minio.New(b.endpoint, &minio.Options{Creds: creds, Secure: b.secure, Region: b.region, Transport: b.transport, MaxRetries: 1})
}

// call runs f with a client and the time that one object may take. Errors tell what the server said, and the object's name.
func (b *bucket) call(ctx context.Context, name string, f func(context.Context, *minio.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.access.Patience)
	defer cancel()
	client, err := b.client()
	if err == nil {
		err = f(ctx, client)
	}
	if err == nil {
		return nil
	}
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusNotFound:
		if minio.ToErrorResponse(err).Code != "NoSuchBucket" {
			return fmt.Errorf("%s: %w", name, ErrGone)
		}
	case http.StatusPreconditionFailed:
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	var wrapped *url.Error // its URL may be signed
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %s: %w", b, name, err)
}

// whole objects are there at once, or not at all: parts are for what is larger than 5 GiB.
func (b *bucket) put(ctx context.Context, name string, from io.Reader, size int64, o minio.PutObjectOptions) error {
	o.DisableMultipart, o.ContentType = true, "application/octet-stream"
	return b.call(ctx, name, func(ctx context.Context, c *minio.Client) error {
		_, err := c.PutObject(ctx, b.name, b.prefix+name, from, size, o)
		return err
	})
}

func (b *bucket) Put(ctx context.Context, name, file string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	return b.put(ctx, name, from, info.Size(), minio.PutObjectOptions{})
}

func (b *bucket) Write(ctx context.Context, name string, data []byte, once bool) error {
	var o minio.PutObjectOptions
	if once {
		o.SetMatchETagExcept("*")
	}
	return b.put(ctx, name, bytes.NewReader(data), int64(len(data)), o)
}

func (b *bucket) get(ctx context.Context, name string, f func(io.Reader) error) error {
	return b.call(ctx, name, func(ctx context.Context, c *minio.Client) error {
		object, err := c.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer object.Close()
		return f(object)
	})
}

func (b *bucket) Get(ctx context.Context, name, file string) error {
	return b.get(ctx, name, func(from io.Reader) error {
		to, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, from)
		if e := to.Close(); err == nil {
			err = e
		}
		return err
	})
}

func (b *bucket) Read(ctx context.Context, name string) (data []byte, err error) {
	err = b.get(ctx, name, func(from io.Reader) (err error) {
		data, err = io.ReadAll(io.LimitReader(from, maxRead))
		return err
	})
	return data, err
}

func (b *bucket) List(ctx context.Context, prefix string) (names []string, err error) {
	err = b.call(ctx, prefix, func(ctx context.Context, c *minio.Client) error {
		for object := range c.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
			if object.Err != nil {
				return object.Err
			}
			names = append(names, strings.TrimPrefix(object.Key, b.prefix))
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

func (b *bucket) Delete(ctx context.Context, names []string) error {
	for _, name := range names {
		err := b.call(ctx, name, func(ctx context.Context, c *minio.Client) error {
			return c.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{})
		})
		if err != nil && !errors.Is(err, ErrGone) {
			return err
		}
	}
	return nil
}
