package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Place is where a lake is: objects under names with slashes. An object is there whole, or not at all.
type Place interface {
	// Put writes a file as an object, in place of one of that name.
	Put(ctx context.Context, name, file string) error
	// Write writes some bytes as an object; with once it fails with ErrExists where there is one.
	Write(ctx context.Context, name string, data []byte, once bool) error
	// Get writes an object to a file; ErrGone where there is none.
	Get(ctx context.Context, name, file string) error
	// Read gives an object of at most maxRead bytes; ErrGone where there is none.
	Read(ctx context.Context, name string) ([]byte, error)
	// List gives the names that begin with a prefix, in order.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes objects; those that are not there are no error.
	Delete(ctx context.Context, names []string) error
	// URI names an object as engines do that read it: s3://BUCKET/… or file:///…
	URI(name string) string
	// String is where it is, without secrets.
	String() string
}

// What places answer.
var (
	ErrExists = errors.New("there is such an object already")
	ErrGone   = errors.New("there is no such object")
)

const (
	maxRead  = 64 << 20
	patience = 10 * time.Minute // for one object
)

// Access is how a place is reached.
type Access struct {
	// Credentials is a file like ~/.aws/credentials; "" looks at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, then at that file, then asks
	// the machine that this runs on.
	Credentials string
	CAFile      string // with roots that are trusted beside the system's
	Patience    time.Duration
}

// Parse reads a folder's path, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME.
func Parse(text string, a Access) (Place, error) {
	a.Patience = cmp.Or(a.Patience, patience)
	if !strings.Contains(text, "://") {
		if text == "" {
			return nil, errors.New("it names neither a folder nor an s3:// URL")
		}
		dir, err := filepath.Abs(text)
		return folder{dir}, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is no URL")
	}
	if u.User != nil {
		return nil, errors.New("credentials do not belong in it: give them in a file, or in the environment")
	}
	switch u.Scheme {
	case "file":
		return folder{filepath.Clean(u.Path)}, nil
	case "s3":
		return newBucket(u, a)
	}
	return nil, fmt.Errorf("%s:// is neither s3:// nor a folder", u.Scheme)
}
