package dir

import (
	"errors"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/feed"
)

// unreadable notes that a path cannot be looked at. What is known of it stays, and is read again once it can be.
func (s *store) unreadable(path string, err error) {
	if f := s.files[path]; f != nil {
		f.read = false
	}
	s.blind = true
	s.notes.Set(path, cannotRead(s.name(path), err).Findings)
}

// readable takes back what unreadable noted of a directory.
func (s *store) readable(path string) { s.notes.Set(path, nil) }

// rootIsGone notes that the directory itself is missing; err is nil when something else is in its place.
func (s *store) rootIsGone(err error) {
	if err == nil {
		err = errors.New("it is no directory")
	}
	s.notes.Set(s.root, []admission.Finding{{
		Severity: admission.Error, Origin: s.root,
		Message: "the configuration directory is gone (" + reason(err) + "); what it held stays in use",
		Fix:     "put it back; to remove every object, leave an empty directory",
	}})
}

func (s *store) rootIsBack() { s.notes.Set(s.root, nil) }

// saysNothing is said of a file without a byte, as a full disk leaves one, or a program that has just begun to write it: who does not want its objects any more removes it.
func saysNothing(name string) admission.Finding {
	return admission.Finding{
		Severity: admission.Warning, Origin: name, Message: "the file is empty; what it held stays in use",
		Fix: "write it again; to remove its objects, remove the file",
	}
}

// sayKept tells the reader of an error that nothing is lost meanwhile.
func sayKept(findings []admission.Finding, kept map[config.Key]bool) []admission.Finding {
	for i, f := range findings {
		if f.Severity == admission.Error && f.Key == (config.Key{}) && len(kept) > 0 {
			findings[i].Fix += "; until then the last good version of the file's objects is used"
		}
	}
	return feed.MarkKept(findings, func(f admission.Finding) bool { return kept[f.Key] })
}
