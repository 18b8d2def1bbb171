package admission

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
)

// report collects the findings about one object.
type report struct {
	of       config.Object
	findings []Finding
}

func (r *report) add(s Severity, field, value, message, fix string) {
	if len(value) > 120 {
		value = strings.ToValidUTF8(value[:117], "") + "..."
	}
	r.findings = append(r.findings, Finding{
		Severity: s, Key: r.of.Key, Origin: r.of.Origin, Field: field, Value: value, Message: message, Fix: fix,
	})
}

// reject reports an error; value is printed as text, nil as nothing.
func (r *report) reject(field string, value any, message, fix string) {
	r.add(Error, field, text(value), message, fix)
}

// warn reports a warning.
func (r *report) warn(field string, value any, message, fix string) {
	r.add(Warning, field, text(value), message, fix)
}

// hostError reports what host's parsers return.
func (r *report) hostError(field string, value string, err error) {
	var e *host.Error
	if errors.As(err, &e) {
		r.reject(field, value, e.Problem, e.Fix)
		return
	}
	r.reject(field, value, err.Error(), "write a host name")
}

// note reports what is to be known.
func (r *report) note(field string, value any, message, fix string) {
	r.add(Info, field, text(value), message, fix)
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// at builds a field's path: at("spec.ports", 0, "number") is "spec.ports[0].number".
func at(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", p)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(p)
		}
	}
	return b.String()
}
