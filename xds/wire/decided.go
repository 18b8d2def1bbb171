package wire

import "strings"

// DecidedMetadata is the key of the node metadata by which an agent says that it reads TagDecided. Others are given a tag for each of DecidedTags.
const DecidedMetadata = "SALLYPORT_DECIDED_TAG"

// DecidedTags are the tags that say of each request what decided about it, in the order that TagDecided has their values in. All of them are words of the control
// plane; no client writes any.
var DecidedTags = [...]string{TagRole, TagRevision, TagConfig, TagPolicy}

// decidedSeparator is between two values. It is in no role, no revision, and no name that Kubernetes takes.
const decidedSeparator = "|"

// JoinDecided is the value of TagDecided; each value may be a format string.
func JoinDecided(values [len(DecidedTags)]string) string {
	return strings.Join(values[:], decidedSeparator)
}

// SplitDecided gives the values of DecidedTags. What is not there is "".
func SplitDecided(text string) (values [len(DecidedTags)]string) {
	last := len(values) - 1
	for i := range last {
		values[i], text, _ = strings.Cut(text, decidedSeparator)
	}
	values[last] = text
	return values
}

// InDecided is a text of an object's, as it may be among values of TagDecided: without what is between them, whatever it is called.
func InDecided(text string) string { return strings.ReplaceAll(text, decidedSeparator, "_") }
