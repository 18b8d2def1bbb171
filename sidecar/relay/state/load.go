package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }

// The first frame of a file is opHead, with magic, the owner and the type URL, separated by newlines. A file of
// another owner (a run directory that a different proxy used) is not ours to serve.
const (
	opHead = 'H'
	magic  = "sallyport xds state 1"
)

func header(owner, url string) []byte { return []byte(magic + "\n" + owner + "\n" + url) }

// errForeign says that a file is whole, but not the state of this proxy.
var errForeign = errors.New("written for another proxy or by another version")

// loaded is what a file held.
type loaded struct {
	url   string
	index map[string]place
	live  int64
	good  int64 // bytes up to the first damage
}

// load reads a file's records. The error is errForeign, or wraps errTorn: then what is returned is good up to the
// damage (url is empty if not even the header was).
func load(in io.Reader, owner string) (loaded, error) {
	frames := newFrameReader(in)
	out := loaded{index: map[string]place{}}
	op, head, err := frames.next()
	if err != nil || op != opHead {
		return out, fmt.Errorf("%w: no header", errTorn)
	}
	parts := bytes.SplitN(head, []byte("\n"), 3)
	if len(parts) != 3 || string(parts[0]) != magic || string(parts[1]) != owner {
		return out, errForeign
	}
	out.url = string(parts[2])
	out.good = frames.off
	for {
		op, body, err := frames.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err == nil {
			err = out.apply(op, body, out.good)
		}
		if err != nil {
			return out, err
		}
		out.good = frames.off
	}
}

// apply takes one record into the index.
func (l *loaded) apply(op byte, body []byte, off int64) error {
	switch op {
	case opPut:
		name, version, err := nameAndVersion(body)
		if err != nil {
			return fmt.Errorf("%w: record at %d: %w", errTorn, off, err)
		}
		l.drop(name)
		l.index[name] = place{version: version, off: off, length: len(body)}
		l.live += frameHead + 1 + int64(len(body))
	case opRemove:
		l.drop(string(body))
		delete(l.index, string(body))
	default:
		return fmt.Errorf("%w: operation %q at %d", errTorn, op, off)
	}
	return nil
}

func (l *loaded) drop(name string) {
	if old, ok := l.index[name]; ok {
		l.live -= frameHead + 1 + int64(old.length)
	}
}

func nameAndVersion(body []byte) (name, version string, err error) {
	var r discoveryv3.Resource
	if err := proto.Unmarshal(body, &r); err != nil {
		return "", "", err
	}
	if r.GetName() == "" {
		return "", "", errors.New("a resource without a name")
	}
	return r.GetName(), r.GetVersion(), nil
}

// openTable loads a file and leaves it open for reading and appending, cut to what is good.
func openTable(path, owner string) (*Table, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	content, damage := load(file, owner)
	if content.url == "" || errors.Is(damage, errForeign) {
		return nil, errors.Join(damage, file.Close())
	}
	if damage != nil {
		if err := file.Truncate(content.good); err != nil {
			return nil, errors.Join(damage, err, file.Close())
		}
	}
	return &Table{
		url: content.url, path: path, file: file, index: content.index, pending: map[string]*discoveryv3.Resource{},
		known: true, size: content.good, live: content.live,
	}, damage
}
