package admission

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config/host"
)

// The names of Istio's API are DNS labels (RFC 1123 section 2.1) in upper or lower case.
var labelForm = regexp.MustCompile(`^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$`)

func isLabel(s string) bool { return len(s) <= 63 && labelForm.MatchString(s) }

// isObjectName says whether an object of the cluster may have a name (RFC 1123 section 2.1, as Kubernetes reads it).
func isObjectName(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }

// namespace rejects what is no namespace's name.
func (r *report) namespace(field, value string) {
	if !isLabel(value) {
		r.reject(field, value, "is no namespace", "write a namespace's name")
	}
}

// hostPattern checks a name or a wildcard, also of the partial kind ("*-api.example.com"), which Istio's API takes and
// nothing is matched by here. any is whether "*" may stand alone.
func (r *report) hostPattern(field, value string, any bool) {
	if host.Partial(value) {
		r.warn(field, value, "a partial wildcard matches no host: \"*\" stands for the whole first label", "write it as in "+wholeLabel(value))
		return
	}
	parse := host.Parse
	if any {
		parse = host.ParsePattern
	}
	if _, err := parse(value); err != nil {
		r.hostError(field, value, err)
	}
}

// wholeLabel is the wildcard that a partial one was probably meant to be.
func wholeLabel(partial string) string {
	rest := strings.TrimLeft(partial, "*-")
	if strings.Count(rest, ".") > 1 {
		_, rest, _ = strings.Cut(rest, ".")
	}
	return `"*.` + rest + `"`
}

// unixPath rejects what is no path of a socket: absolute, or of an abstract one.
func (r *report) unixPath(field, value string) {
	path := strings.TrimPrefix(value, unixPrefix)
	if !strings.HasPrefix(path, "@") && (!strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/")) {
		r.reject(field, value, "is no absolute path of a socket", "write unix:///PATH, or unix://@NAME for an abstract socket")
	}
}
