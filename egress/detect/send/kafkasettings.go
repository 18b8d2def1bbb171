package send

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// kafkaSettings are what a target's files say. Two are equal where they mean the same connection.
type kafkaSettings struct {
	brokers          string // HOST:PORT, with commas
	topic            string
	encrypted        bool
	mechanism        string // of SASL; "" for none
	user, password   string
	roots            string // PEM, trusted in place of the system's; "" for those
	furtherRoots     string // PEM, trusted as well
	certificate, key string // PEM; "" for none
}

// What may stand below the URL, by the names that librdkafka has for it.
const (
	bootstrapServers = "bootstrap.servers"
	saslMechanism    = "sasl.mechanism"
	saslUsername     = "sasl.username"
	saslPassword     = "sasl.password"
	sslCA            = "ssl.ca.location"
	sslCertificate   = "ssl.certificate.location"
	sslKey           = "ssl.key.location"
)

var kafkaNames = []string{bootstrapServers, saslMechanism, saslUsername, saslPassword, sslCA, sslCertificate, sslKey}

// The mechanisms of SASL. PLAIN shows the password to whoever reads along, so that it is for TLS only.
var kafkaMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

var kafkaTopicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// settings reads the target's file, and those that it names. No error holds a secret.
func (k *kafkaTopic) settings() (s kafkaSettings, err error) {
	a, err := k.read()
	if err != nil {
		return s, err
	}
	wrong := func(format string, args ...any) (kafkaSettings, error) {
		return s, fmt.Errorf("%s: %s: %s", k.kind, k.file, fmt.Sprintf(format, args...))
	}
	said := map[string]string{}
	for name, value := range a.headers {
		i := slices.IndexFunc(kafkaNames, func(known string) bool { return http.CanonicalHeaderKey(known) == name })
		if i < 0 {
			return wrong("%s is no setting: below the URL may stand %s", name, strings.Join(kafkaNames, ", "))
		}
		said[kafkaNames[i]] = value
	}
	s.topic, s.encrypted = strings.TrimPrefix(a.Path, "/"), a.Scheme == "tls"
	switch {
	case a.User != nil:
		return wrong("the URL names a user: write %s and %s on lines below it", saslUsername, saslPassword)
	case a.RawQuery != "" || a.Fragment != "":
		return wrong("the URL goes on after the topic: write tls://HOST:PORT/TOPIC, and settings on lines below it")
	case !kafkaTopicName.MatchString(s.topic) || strings.Trim(s.topic, ".") == "":
		return wrong("the URL names no topic: write tls://HOST:PORT/TOPIC; a topic has at most 249 letters, digits, dots, _ and -")
	}
	if s.brokers, err = brokers(a.Host, said[bootstrapServers]); err != nil {
		return wrong("%v", err)
	}
	s.mechanism, s.user, s.password = said[saslMechanism], said[saslUsername], said[saslPassword]
	switch {
	case s.mechanism == "" && s.user+s.password != "":
		return wrong("%s is missing: one of %s", saslMechanism, strings.Join(kafkaMechanisms, ", "))
	case s.mechanism == "":
	case !slices.Contains(kafkaMechanisms, s.mechanism):
		return wrong("%s %.40q: must be one of %s", saslMechanism, s.mechanism, strings.Join(kafkaMechanisms, ", "))
	case s.user == "" || s.password == "":
		return wrong("%s needs both %s and %s", saslMechanism, saslUsername, saslPassword)
	case s.mechanism == "PLAIN" && !s.encrypted:
		return wrong("%s PLAIN would show the password on the way: use tls://, or SCRAM-SHA-512", saslMechanism)
	}
	if err = k.files(&s, said); err != nil {
		return wrong("%v", err)
	}
	if _, err = s.tls(); err != nil {
		return wrong("%v", err)
	}
	return s, nil
}

// files reads those that settings name; a relative name is one beside the target's file.
func (k *kafkaTopic) files(s *kafkaSettings, said map[string]string) error {
	for name, content := range map[string]*string{sslCA: &s.roots, sslCertificate: &s.certificate, sslKey: &s.key} {
		file := said[name]
		if file == "" {
			continue
		}
		if !s.encrypted {
			return fmt.Errorf("%s is for tls:// only", name)
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(k.file), file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*content = string(data)
	}
	if (s.certificate == "") != (s.key == "") {
		return fmt.Errorf("%s and %s go together", sslCertificate, sslKey)
	}
	if !s.encrypted || k.options.CAFile == "" {
		return nil
	}
	data, err := os.ReadFile(k.options.CAFile)
	s.furtherRoots = string(data)
	return err
}

// brokers are the URL's and further ones.
func brokers(host, further string) (string, error) {
	all := []string{host}
	for one := range strings.SplitSeq(further, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	for _, one := range all {
		if name, port, err := net.SplitHostPort(one); err != nil || name == "" || port == "" {
			return "", fmt.Errorf("%.100q is no HOST:PORT of a broker: write it in the URL, and further ones in %s, with commas", one, bootstrapServers)
		}
	}
	return strings.Join(all, ","), nil
}

// tls is how brokers are spoken to: whom they have to show to be, and with which certificate; nil without encryption.
func (s *kafkaSettings) tls() (*tls.Config, error) {
	if !s.encrypted {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.roots != "" || s.furtherRoots != "" {
		config.RootCAs = x509.NewCertPool()
		if system, err := x509.SystemCertPool(); err == nil && s.roots == "" {
			config.RootCAs = system
		}
		for name, roots := range map[string]string{sslCA: s.roots, "roots": s.furtherRoots} {
			if roots != "" && !config.RootCAs.AppendCertsFromPEM([]byte(roots)) {
				return nil, fmt.Errorf("%s: the file holds no certificate", name)
			}
		}
	}
	if s.certificate != "" {
		pair, err := tls.X509KeyPair([]byte(s.certificate), []byte(s.key))
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", sslCertificate, sslKey, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// sasl is how it says who it is; nil where it does not.
func (s *kafkaSettings) sasl() sasl.Mechanism {
	switch s.mechanism {
	case "PLAIN":
		return saslplain.Auth{User: s.user, Pass: s.password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.user, Pass: s.password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.user, Pass: s.password}.AsSha512Mechanism()
	}
	return nil
}
