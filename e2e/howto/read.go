package howto

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Kind is what a block is to a reader.
type Kind string

// The kinds.
const (
	Shell   Kind = "sh"      // commands, to be pasted at once
	Console Kind = "console" // commands behind "$ ", with what they print
	YAML    Kind = "yaml"
	Table   Kind = "table" // of calls
	Text    Kind = "text"  // anything else: not for running
)

// Block is a part of a document that a reader would use.
type Block struct {
	Kind Kind
	Line int    // of its first line, from 1
	Text string // without indentation and fences
	Note
}

// Note is what the comment before a block says.
type Note struct {
	File   string // to write it to
	Until  string // command that tells that what stays is up; "" for blocks that end
	Exits  []int  // nil for 0 only
	Fails  []int  // commands of a console session, from 1
	Prints string
	Host   string
	User   int
	Scene  string
	Not    string // why it is not run
	table  bool
}

var noteLine = regexp.MustCompile(`^\s*<!-- run: (.*) -->\s*$`)

// Read finds the blocks of a Markdown document.
func Read(markdown string) ([]Block, error) {
	var blocks []Block
	var note Note
	lines := strings.Split(markdown, "\n")
	for i := 0; i < len(lines); i++ {
		trimmed := strings.TrimSpace(lines[i])
		if m := noteLine.FindStringSubmatch(lines[i]); m != nil {
			read, err := readNote(m[1])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			note = read
			continue
		}
		switch {
		case trimmed == "":
			continue
		case strings.HasPrefix(trimmed, "```"):
			b := Block{Kind: kindOf(strings.TrimPrefix(trimmed, "```")), Line: i + 2, Note: note}
			indent := lines[i][:strings.Index(lines[i], "`")]
			var text strings.Builder
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
				text.WriteString(strings.TrimPrefix(lines[i], indent) + "\n")
			}
			if i == len(lines) {
				return nil, fmt.Errorf("line %d: the block does not end", b.Line-1)
			}
			b.Text = text.String()
			blocks = append(blocks, b)
		case note.table && strings.HasPrefix(trimmed, "|"):
			b := Block{Kind: Table, Line: i + 1, Note: note}
			var text strings.Builder
			for ; i < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i]), "|"); i++ {
				text.WriteString(lines[i] + "\n")
			}
			i--
			b.Text = text.String()
			blocks = append(blocks, b)
		case note.isSet():
			return nil, fmt.Errorf("line %d: a comment for the test that no block follows", i+1)
		}
		note = Note{}
	}
	if note.isSet() {
		return nil, fmt.Errorf("line %d: a comment for the test that no block follows", len(lines))
	}
	return blocks, nil
}

func (n Note) isSet() bool {
	return n.table || n.Exits != nil || n.Fails != nil || n.User != 0 || n.File+n.Until+n.Prints+n.Host+n.Scene+n.Not != ""
}

func kindOf(language string) Kind {
	switch language {
	case "sh", "bash":
		return Shell
	case "console":
		return Console
	case "yaml":
		return YAML
	}
	return Text
}

// readNote reads "CLAUSE; CLAUSE…".
func readNote(text string) (n Note, err error) {
	if why, ok := strings.CutPrefix(text, "not here: "); ok {
		return Note{Not: why}, nil
	}
	for clause := range strings.SplitSeq(text, "; ") {
		verb, rest, _ := strings.Cut(clause, " ")
		switch verb {
		case "file":
			n.File = rest
		case "stays":
			until, ok := strings.CutPrefix(rest, "until ")
			if !ok {
				return n, fmt.Errorf("%q: say until when it is waited for", clause)
			}
			n.Until = until
		case "exits":
			n.Exits, err = numbers(rest)
		case "fails":
			n.Fails, err = numbers(rest)
		case "prints":
			n.Prints = rest
		case "on":
			host, user, as := strings.Cut(rest, " as ")
			n.Host = host
			if as {
				n.User, err = strconv.Atoi(user)
			}
		case "in":
			n.Scene = rest
		case "table":
			n.table = true
		default:
			return n, fmt.Errorf("%q is nothing that a test understands", clause)
		}
		if err != nil {
			return n, fmt.Errorf("%q: %w", clause, err)
		}
	}
	return n, nil
}

func numbers(text string) (found []int, err error) {
	for part := range strings.SplitSeq(text, " or ") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, err
		}
		found = append(found, n)
	}
	return found, nil
}

// Command is a command with what it is said to print.
type Command struct {
	Text  string
	Print string
}

// Commands are those of a shell block (one, for it is pasted at once), a console session, or a table.
func (b Block) Commands() []Command {
	switch b.Kind {
	case Shell:
		return []Command{{Text: b.Text}}
	case Console:
		return session(b.Text)
	case Table:
		return calls(b.Text)
	}
	return nil
}

var heredoc = regexp.MustCompile(`<<-?'?(\w+)'?`)

// session reads lines behind "$ ", with their here-documents; what follows is what they print.
func session(text string) []Command {
	var found []Command
	end := "" // of a here-document
	for line := range strings.Lines(text) {
		command, isNew := strings.CutPrefix(line, "$ ")
		switch {
		case end != "":
			found[len(found)-1].Text += line
			if strings.TrimSpace(line) == end {
				end = ""
			}
		case isNew:
			found = append(found, Command{Text: command})
			if m := heredoc.FindStringSubmatch(command); m != nil {
				end = m[1]
			}
		case len(found) > 0 && strings.HasSuffix(found[len(found)-1].Text, "\\\n") && found[len(found)-1].Print == "":
			found[len(found)-1].Text += line
		case len(found) > 0:
			found[len(found)-1].Print += line
		}
	}
	return found
}

var firstCode = regexp.MustCompile("^\\|\\s*`([^`]+)`")

func calls(table string) []Command {
	var found []Command
	for line := range strings.Lines(table) {
		if m := firstCode.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			found = append(found, Command{Text: m[1] + "\n"})
		}
	}
	return found
}
