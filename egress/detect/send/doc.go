// Package send brings findings to where people look: webhooks (JSON, or as Slack shows it), Alertmanager, syslog, OTLP logs; and records to where
// logs are kept (records.go).
//
// In: targets, KIND=FILE, where the file holds the URL, which mostly is a secret, and headers. Out: a Sink for each, whose Send is nil
// when the other side has taken everything.
//
// Files are read again for each message, so that secrets can be changed; they are never logged, nor part of an error. Each Send is bounded in time, is
// tried a few times, follows no redirect, and verifies certificates.
package send
